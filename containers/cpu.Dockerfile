# The program for CPUs, with MPI. Untested: the project's machines have no container engine; its commands are those of
# docs/reference/building.md, which are tested on Debian 12.
#   docker build -f containers/cpu.Dockerfile -t trireme .
#   docker run --rm -v "$PWD/runs:/runs" trireme train quickstart --run /runs/first --set 'data.source="synthetic"'
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN scripts/install-packages run \
    && cmake --preset cpu -DTRIREME_TESTS=OFF \
    && cmake --build --preset cpu \
    && cmake --install build/cpu --prefix /opt/trireme --strip

FROM debian:12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends openmpi-bin libdnnl2 libgomp1 libfmt9 libtomlplusplus3 libxxhash0 \
      libicu72 zlib1g libzstd1 libsentencepiece0 libcpp-httplib0.11 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/trireme /opt/trireme
ENV PATH=/opt/trireme/bin:$PATH
ENTRYPOINT ["trireme"]
