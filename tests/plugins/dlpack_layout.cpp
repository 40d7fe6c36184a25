#include "dlpack_layout.hpp"

#include <dlpack/dlpack.h>

DlpackLayout dlpack_layout() {
  return {sizeof(DLTensor),
          offsetof(DLTensor, data),
          offsetof(DLTensor, device),
          offsetof(DLTensor, ndim),
          offsetof(DLTensor, dtype),
          offsetof(DLTensor, shape),
          offsetof(DLTensor, strides),
          offsetof(DLTensor, byte_offset),
          sizeof(DLDevice),
          offsetof(DLDevice, device_id),
          sizeof(DLDataType),
          offsetof(DLDataType, bits),
          offsetof(DLDataType, lanes),
          kDLCPU,
          kDLCUDA,
          kDLCUDAHost,
          kDLInt,
          kDLUInt,
          kDLFloat,
          kDLBfloat};
}
