# The program for NVIDIA GPUs from A100 on, with NCCL and MPI. Untested: the project's machines have no container engine.
# The base images hold CUDA, cuDNN and NCCL; CUDA_ARCHITECTURES chooses fewer GPUs and a shorter build.
#   docker build -f containers/cuda.Dockerfile -t trireme-cuda .
#   docker run --rm --gpus all -v "$PWD/runs:/runs" trireme-cuda train quickstart --run /runs/first \
#     --set train.device=cuda --set 'data.source="synthetic"'
ARG CUDA=13.0.1
FROM nvidia/cuda:${CUDA}-cudnn-devel-ubuntu24.04 AS build
ARG CUDA_ARCHITECTURES="80-real;86-real;89-real;90-real;100-real;120"
COPY . /src
WORKDIR /src
RUN scripts/install-packages run \
    && cmake --preset cuda -DTRIREME_TESTS=OFF -DTRIREME_HTTP=OFF -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES}" \
    && cmake --build --preset cuda \
    && cmake --install build/cuda --prefix /opt/trireme --strip

FROM nvidia/cuda:${CUDA}-cudnn-runtime-ubuntu24.04
RUN apt-get update \
    && apt-get install -y --no-install-recommends openmpi-bin libopenmpi3t64 libdnnl3 libgomp1 libfmt9 \
      libtomlplusplus3t64 libxxhash0 libicu74 zlib1g libzstd1 libsentencepiece0 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/trireme /opt/trireme
ENV PATH=/opt/trireme/bin:$PATH
ENTRYPOINT ["trireme"]
