// What a texture's elements are, by their C++ type.
#pragma once
#include "cuda_runtime_api.h"

template <typename T> struct weft_channels;
#define WEFT_CHANNELS(type, base, count, kind) \
  template <> struct weft_channels<type> { \
    typedef base element; \
    enum { number = count, format = kind }; \
  };
#define WEFT_CHANNELS_OF(name, base, kind) \
  WEFT_CHANNELS(base, base, 1, kind) \
  WEFT_CHANNELS(name##1, base, 1, kind) \
  WEFT_CHANNELS(name##2, base, 2, kind) \
  WEFT_CHANNELS(name##3, base, 3, kind) \
  WEFT_CHANNELS(name##4, base, 4, kind)
WEFT_CHANNELS(char, char, 1, cudaChannelFormatKindSigned)
WEFT_CHANNELS_OF(char, signed char, cudaChannelFormatKindSigned)
WEFT_CHANNELS_OF(uchar, unsigned char, cudaChannelFormatKindUnsigned)
WEFT_CHANNELS_OF(short, short, cudaChannelFormatKindSigned)
WEFT_CHANNELS_OF(ushort, unsigned short, cudaChannelFormatKindUnsigned)
WEFT_CHANNELS_OF(int, int, cudaChannelFormatKindSigned)
WEFT_CHANNELS_OF(uint, unsigned int, cudaChannelFormatKindUnsigned)
WEFT_CHANNELS_OF(float, float, cudaChannelFormatKindFloat)
#undef WEFT_CHANNELS
#undef WEFT_CHANNELS_OF

template <typename T>
static __inline__ __host__ cudaChannelFormatDesc cudaCreateChannelDesc() {
  const int bits = 8 * (int)sizeof(typename weft_channels<T>::element), n = weft_channels<T>::number;
  return cudaCreateChannelDesc(bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 3 ? bits : 0,
                               (cudaChannelFormatKind)weft_channels<T>::format);
}

template <typename T, int dimensions = cudaTextureType1D, enum cudaTextureReadMode mode = cudaReadModeElementType>
struct __device_builtin_texture_type__ texture : public textureReference {
  __host__ texture(int norm = 0, enum cudaTextureFilterMode filter = cudaFilterModePoint,
                   enum cudaTextureAddressMode address = cudaAddressModeClamp) {
    this->normalized = norm;
    this->filterMode = filter;
    for (int i = 0; i < 3; ++i) this->addressMode[i] = address;
    this->channelDesc = cudaCreateChannelDesc<T>();
    this->sRGB = mode == cudaReadModeNormalizedFloat;
  }
  __host__ texture(int norm, enum cudaTextureFilterMode filter, enum cudaTextureAddressMode address,
                   cudaChannelFormatDesc desc)
      : texture(norm, filter, address) {
    this->channelDesc = desc;
  }
};

template <typename T, int d, enum cudaTextureReadMode m>
static __inline__ cudaError_t cudaBindTexture(size_t *offset, const texture<T, d, m> &texture, const void *at,
                                              const cudaChannelFormatDesc &desc, size_t bytes = 0xffffffffu) {
  return weft_bind_texture(offset, &texture, at, &desc, bytes / sizeof(T), 0, bytes);
}
template <typename T, int d, enum cudaTextureReadMode m>
static __inline__ cudaError_t cudaBindTexture(size_t *offset, const texture<T, d, m> &texture, const void *at,
                                              size_t bytes = 0xffffffffu) {
  return weft_bind_texture(offset, &texture, at, &texture.channelDesc, bytes / sizeof(T), 0, bytes);
}
template <typename T, int d, enum cudaTextureReadMode m>
static __inline__ cudaError_t cudaBindTexture2D(size_t *offset, const texture<T, d, m> &texture, const void *at,
                                                const cudaChannelFormatDesc &desc, size_t width, size_t height,
                                                size_t pitch) {
  return weft_bind_texture(offset, &texture, at, &desc, width, height, pitch);
}
template <typename T, int d, enum cudaTextureReadMode m>
static __inline__ cudaError_t cudaBindTexture2D(size_t *offset, const texture<T, d, m> &texture, const void *at,
                                                size_t width, size_t height, size_t pitch) {
  return weft_bind_texture(offset, &texture, at, &texture.channelDesc, width, height, pitch);
}
template <typename T, int d, enum cudaTextureReadMode m>
static __inline__ cudaError_t cudaBindTextureToArray(const texture<T, d, m> &texture, cudaArray_const_t array) {
  return weft_bind_texture_to_array(&texture, array, &array->desc);
}
template <typename T, int d, enum cudaTextureReadMode m>
static __inline__ cudaError_t cudaBindTextureToArray(const texture<T, d, m> &texture, cudaArray_const_t array,
                                                     const cudaChannelFormatDesc &desc) {
  return weft_bind_texture_to_array(&texture, array, &desc);
}
template <typename T, int d, enum cudaTextureReadMode m>
static __inline__ cudaError_t cudaUnbindTexture(const texture<T, d, m> &texture) {
  return weft_unbind_texture(&texture);
}

// The same by address, as C programs have it.
static __inline__ cudaError_t cudaBindTexture(size_t *offset, const textureReference *texture, const void *at,
                                              const cudaChannelFormatDesc *desc, size_t bytes = 0xffffffffu) {
  size_t element = (size_t)(desc->x + desc->y + desc->z + desc->w) / 8;
  return weft_bind_texture(offset, texture, at, desc, element ? bytes / element : 0, 0, bytes);
}
static __inline__ cudaError_t cudaBindTexture2D(size_t *offset, const textureReference *texture, const void *at,
                                                const cudaChannelFormatDesc *desc, size_t width, size_t height,
                                                size_t pitch) {
  return weft_bind_texture(offset, texture, at, desc, width, height, pitch);
}
static __inline__ cudaError_t cudaBindTextureToArray(const textureReference *texture, cudaArray_const_t array,
                                                     const cudaChannelFormatDesc *desc) {
  return weft_bind_texture_to_array(texture, array, desc);
}
static __inline__ cudaError_t cudaUnbindTexture(const textureReference *texture) { return weft_unbind_texture(texture); }
