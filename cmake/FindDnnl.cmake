# Defines DNNL::dnnl. oneDNN's own package file asks for OpenCL where its GPU runtime was built, which the CPU does not need.
find_path(Dnnl_INCLUDE_DIR dnnl.hpp)
find_library(Dnnl_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Dnnl REQUIRED_VARS Dnnl_LIBRARY Dnnl_INCLUDE_DIR)
if(Dnnl_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${Dnnl_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${Dnnl_INCLUDE_DIR})
endif()
