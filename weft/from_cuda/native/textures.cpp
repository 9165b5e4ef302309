// Arrays, textures and surfaces.
#include "weft_cuda.h"
#include <stdlib.h>
#include <string.h>

namespace {
// A texture variable of the program, the device's word for it, and what it is bound to.
struct bound {
  const textureReference *host;
  cudaTextureObject_t *word;
  weft_texture texture;
  bound *next;
};
bound *all;

bound *find(const textureReference *host) {
  for (bound *one = all; one; one = one->next)
    if (one->host == host) return one;
  return nullptr;
}

size_t element_bytes(const cudaChannelFormatDesc &desc) { return (size_t)(desc.x + desc.y + desc.z + desc.w) / 8; }

weft_texture of_reference(const textureReference *reference, const cudaChannelFormatDesc &desc) {
  weft_texture texture = {};
  texture.element_bytes = (unsigned int)element_bytes(desc);
  texture.desc = desc;
  for (int i = 0; i < 3; ++i) texture.address[i] = reference->addressMode[i];
  texture.linear = reference->filterMode == cudaFilterModeLinear;
  texture.normalized = reference->normalized;
  texture.read_as_unit = reference->sRGB;
  return texture;
}

void place_array(weft_texture *texture, const cudaArray *array) {
  texture->data = array->data;
  texture->width = array->width, texture->height = array->height, texture->depth = array->depth;
  texture->pitch = array->width * array->element_bytes;
  texture->slice = texture->pitch * (array->height ? array->height : 1);
  texture->element_bytes = (unsigned int)array->element_bytes;
  texture->desc = array->desc;
}

bool place(weft_texture *texture, const cudaResourceDesc *resource) {
  if (resource->resType == cudaResourceTypeArray) {
    place_array(texture, resource->res.array.array);
  } else if (resource->resType == cudaResourceTypeLinear) {
    texture->data = resource->res.linear.devPtr;
    texture->desc = resource->res.linear.desc;
    texture->element_bytes = (unsigned int)element_bytes(texture->desc);
    texture->width = resource->res.linear.sizeInBytes / texture->element_bytes;
  } else if (resource->resType == cudaResourceTypePitch2D) {
    texture->data = resource->res.pitch2D.devPtr;
    texture->desc = resource->res.pitch2D.desc;
    texture->element_bytes = (unsigned int)element_bytes(texture->desc);
    texture->width = resource->res.pitch2D.width, texture->height = resource->res.pitch2D.height;
    texture->pitch = resource->res.pitch2D.pitchInBytes;
  } else {
    return false;
  }
  return true;
}

// Addresses inside an array's plane, for copies that run through its rows.
char *inside(const cudaArray *array, size_t x, size_t y) {
  return (char *)array->data + y * array->width * array->element_bytes + x;
}
}  // namespace

extern "C" {
void __cudaRegisterTexture(void **unit, const textureReference *host, const void **, const char *name, int, int, int) {
  const weft_variable *variable = weft_find_variable((const char *)unit, name);
  if (!variable) return;
  bound *one = (bound *)calloc(1, sizeof(bound));
  *one = bound{host, (cudaTextureObject_t *)variable->at, {}, all};
  all = one;
}
void __cudaRegisterSurface(void **, const surfaceReference *, const void **, const char *, int, int) {}

cudaError_t weft_bind_texture(size_t *offset, const textureReference *reference, const void *at,
                              const cudaChannelFormatDesc *desc, size_t width, size_t height, size_t pitch) {
  bound *one = find(reference);
  if (!one) return weft_fail(cudaErrorInvalidTexture);
  one->texture = of_reference(reference, *desc);
  one->texture.data = (void *)at;
  one->texture.width = width, one->texture.height = height, one->texture.pitch = pitch;
  *one->word = (cudaTextureObject_t)&one->texture;
  if (offset) *offset = 0;
  return cudaSuccess;
}
cudaError_t weft_bind_texture_to_array(const textureReference *reference, cudaArray_const_t array,
                                       const cudaChannelFormatDesc *desc) {
  bound *one = find(reference);
  if (!one || !array) return weft_fail(cudaErrorInvalidTexture);
  one->texture = of_reference(reference, *desc);
  place_array(&one->texture, array);
  *one->word = (cudaTextureObject_t)&one->texture;
  return cudaSuccess;
}
cudaError_t weft_unbind_texture(const textureReference *reference) {
  bound *one = find(reference);
  if (one) *one->word = 0;
  return cudaSuccess;
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const cudaResourceDesc *resource,
                                    const cudaTextureDesc *desc, const cudaResourceViewDesc *) {
  weft_texture *texture = (weft_texture *)calloc(1, sizeof(weft_texture));
  if (!texture || !place(texture, resource)) return weft_fail(cudaErrorInvalidValue);
  for (int i = 0; i < 3; ++i) texture->address[i] = desc->addressMode[i];
  texture->linear = desc->filterMode == cudaFilterModeLinear;
  texture->normalized = desc->normalizedCoords;
  texture->read_as_unit = desc->readMode == cudaReadModeNormalizedFloat;
  memcpy(texture->border, desc->borderColor, sizeof texture->border);
  *object = (cudaTextureObject_t)texture;
  return cudaSuccess;
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  free((void *)object);
  return cudaSuccess;
}
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const cudaResourceDesc *resource) {
  weft_texture *texture = (weft_texture *)calloc(1, sizeof(weft_texture));
  if (!texture || !place(texture, resource)) return weft_fail(cudaErrorInvalidValue);
  *object = (cudaSurfaceObject_t)texture;
  return cudaSuccess;
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  free((void *)object);
  return cudaSuccess;
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return cudaChannelFormatDesc{x, y, z, w, kind};
}
cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, cudaExtent extent,
                              unsigned int flags) {
  cudaArray *made = (cudaArray *)calloc(1, sizeof(cudaArray));
  *made = cudaArray{nullptr, extent.width, extent.height, extent.depth, element_bytes(*desc), *desc, flags};
  size_t elements = extent.width * (extent.height ? extent.height : 1) * (extent.depth ? extent.depth : 1);
  cudaError_t error = cudaMalloc(&made->data, elements * made->element_bytes);
  *array = made;
  return error;
}
cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, size_t width, size_t height,
                            unsigned int flags) {
  return cudaMalloc3DArray(array, desc, cudaExtent{width, height, 0}, flags);
}
cudaError_t cudaFreeArray(cudaArray_t array) {
  if (!array) return cudaSuccess;
  cudaError_t error = cudaFree(array->data);
  free(array);
  return error;
}
cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *extent, unsigned int *flags, cudaArray_t array) {
  if (desc) *desc = array->desc;
  if (extent) *extent = cudaExtent{array->width, array->height, array->depth};
  if (flags) *flags = array->flags;
  return cudaSuccess;
}
cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_const_t array) {
  *desc = array->desc;
  return cudaSuccess;
}
cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpy(inside(to, x, y), from, bytes, kind);
}
cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                cudaMemcpyKind kind) {
  return cudaMemcpy(to, inside(from, x, y), bytes, kind);
}
cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2D(inside(to, x, y), to->width * to->element_bytes, from, pitch, width, height, kind);
}
cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                  size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2D(to, pitch, inside(from, x, y), from->width * from->element_bytes, width, height, kind);
}
}
