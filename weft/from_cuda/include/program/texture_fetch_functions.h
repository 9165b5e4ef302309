// Fetches from textures, and loads and stores of surfaces.
#pragma once
#include "channel_descriptor.h"
#include "weft_math.h"

static __inline__ __device__ const weft_texture *weft_texture_of(cudaTextureObject_t object) {
  return (const weft_texture *)object;
}
// A texture reference is, in device code, a word that holds the texture object it is bound to.
template <typename T, int d, enum cudaTextureReadMode m>
static __inline__ __device__ cudaTextureObject_t weft_object_of(const texture<T, d, m> &reference) {
  return *(const cudaTextureObject_t *)&reference;
}

// The index of an element along one axis, or -1 outside a border.
static __inline__ __device__ long long weft_texture_index(long long i, long long size, int mode) {
  if (i >= 0 && i < size) return i;
  if (mode == cudaAddressModeBorder) return -1;
  if (mode == cudaAddressModeWrap) return (i % size + size) % size;
  if (mode == cudaAddressModeMirror) {
    i = (i % (2 * size) + 2 * size) % (2 * size);
    return i < size ? i : 2 * size - 1 - i;
  }
  return i < 0 ? 0 : size - 1;
}

template <typename T>
static __inline__ __device__ T weft_texel(const weft_texture *t, long long x, long long y, long long z) {
  x = weft_texture_index(x, (long long)t->width, t->address[0]);
  y = t->height ? weft_texture_index(y, (long long)t->height, t->address[1]) : 0;
  z = t->depth ? weft_texture_index(z, (long long)t->depth, t->address[2]) : 0;
  if (x < 0 || y < 0 || z < 0) return T{};
  return *(const T *)((const char *)t->data + z * t->slice + y * t->pitch + x * t->element_bytes);
}

// An element as numbers: of normalized textures in [0, 1] or [-1, 1], as read-mode NormalizedFloat says.
static __inline__ __device__ float weft_channel(const weft_texture *t, const char *at, int channel) {
  int bits = t->desc.x;
  if (bits == 32) {
    if (t->desc.f == cudaChannelFormatKindFloat) return ((const float *)at)[channel];
    return t->desc.f == cudaChannelFormatKindSigned ? (float)((const int *)at)[channel]
                                                    : (float)((const unsigned int *)at)[channel];
  }
  bool is_signed = t->desc.f == cudaChannelFormatKindSigned;
  float value = bits == 8 ? (is_signed ? (float)((const signed char *)at)[channel]
                                       : (float)((const unsigned char *)at)[channel])
                          : (is_signed ? (float)((const short *)at)[channel]
                                       : (float)((const unsigned short *)at)[channel]);
  if (!t->read_as_unit) return value;
  value /= (float)((1 << (is_signed ? bits - 1 : bits)) - 1);
  return value < -1.0f ? -1.0f : value;
}

template <typename T>
static __inline__ __device__ T weft_linear(const weft_texture *t, float x, float y, float z) {
  typedef typename weft_channels<T>::element element;
  float fx = floorf(x - 0.5f), fy = t->height ? floorf(y - 0.5f) : 0.0f, fz = t->depth ? floorf(z - 0.5f) : 0.0f;
  float ax = x - 0.5f - fx, ay = t->height ? y - 0.5f - fy : 0.0f, az = t->depth ? z - 0.5f - fz : 0.0f;
  T result;
  for (int c = 0; c < weft_channels<T>::number; ++c) {
    float sum = 0.0f;
    for (int corner = 0; corner < 8; ++corner) {
      int i = corner & 1, j = corner >> 1 & 1, k = corner >> 2;
      float weight = (i ? ax : 1.0f - ax) * (j ? ay : 1.0f - ay) * (k ? az : 1.0f - az);
      if (weight == 0.0f) continue;
      long long xi = weft_texture_index((long long)fx + i, (long long)t->width, t->address[0]);
      long long yi = t->height ? weft_texture_index((long long)fy + j, (long long)t->height, t->address[1]) : 0;
      long long zi = t->depth ? weft_texture_index((long long)fz + k, (long long)t->depth, t->address[2]) : 0;
      if (xi < 0 || yi < 0 || zi < 0) continue;
      const char *at = (const char *)t->data + zi * t->slice + yi * t->pitch + xi * t->element_bytes;
      sum += weight * weft_channel(t, at, c);
    }
    ((element *)&result)[c] = (element)sum;
  }
  return result;
}

template <typename T>
static __inline__ __device__ T weft_fetch(cudaTextureObject_t object, float x, float y, float z) {
  const weft_texture *t = weft_texture_of(object);
  if (t->normalized) x *= (float)t->width, y *= (float)t->height, z *= (float)t->depth;
  if (t->linear || t->read_as_unit) {
    if (t->linear) return weft_linear<T>(t, x, y, z);
    return weft_linear<T>(t, floorf(x) + 0.5f, floorf(y) + 0.5f, floorf(z) + 0.5f);
  }
  return weft_texel<T>(t, (long long)floorf(x), (long long)floorf(y), (long long)floorf(z));
}

#define WEFT_FETCH static __inline__ __device__
template <typename T> WEFT_FETCH T tex1Dfetch(cudaTextureObject_t o, int x) { return weft_texel<T>(weft_texture_of(o), x, 0, 0); }
template <typename T> WEFT_FETCH T tex1D(cudaTextureObject_t o, float x) { return weft_fetch<T>(o, x, 0, 0); }
template <typename T> WEFT_FETCH T tex2D(cudaTextureObject_t o, float x, float y) { return weft_fetch<T>(o, x, y, 0); }
template <typename T> WEFT_FETCH T tex3D(cudaTextureObject_t o, float x, float y, float z) { return weft_fetch<T>(o, x, y, z); }
template <typename T> WEFT_FETCH T tex2DLayered(cudaTextureObject_t o, float x, float y, int layer) {
  return weft_fetch<T>(o, x, y, (float)layer);
}
template <typename T> WEFT_FETCH void tex1Dfetch(T *to, cudaTextureObject_t o, int x) { *to = tex1Dfetch<T>(o, x); }
template <typename T> WEFT_FETCH void tex1D(T *to, cudaTextureObject_t o, float x) { *to = tex1D<T>(o, x); }
template <typename T> WEFT_FETCH void tex2D(T *to, cudaTextureObject_t o, float x, float y) { *to = tex2D<T>(o, x, y); }
template <typename T> WEFT_FETCH void tex3D(T *to, cudaTextureObject_t o, float x, float y, float z) {
  *to = tex3D<T>(o, x, y, z);
}

// What a fetch from a texture reference gives: its elements, or floats where it is read as normalized.
template <typename T, enum cudaTextureReadMode m> struct weft_fetched { typedef T type; };
#define WEFT_UNIT(name, base) \
  template <> struct weft_fetched<base, cudaReadModeNormalizedFloat> { typedef float type; }; \
  template <> struct weft_fetched<name##1, cudaReadModeNormalizedFloat> { typedef float1 type; }; \
  template <> struct weft_fetched<name##2, cudaReadModeNormalizedFloat> { typedef float2 type; }; \
  template <> struct weft_fetched<name##4, cudaReadModeNormalizedFloat> { typedef float4 type; };
WEFT_UNIT(char, signed char)
WEFT_UNIT(uchar, unsigned char)
WEFT_UNIT(short, short)
WEFT_UNIT(ushort, unsigned short)
#undef WEFT_UNIT

template <typename T, int d, enum cudaTextureReadMode m>
WEFT_FETCH T tex1Dfetch(const texture<T, d, m> &t, int x) { return tex1Dfetch<T>(weft_object_of(t), x); }
template <typename T, int d, enum cudaTextureReadMode m>
WEFT_FETCH typename weft_fetched<T, m>::type tex1D(const texture<T, d, m> &t, float x) {
  return tex1D<typename weft_fetched<T, m>::type>(weft_object_of(t), x);
}
template <typename T, int d, enum cudaTextureReadMode m>
WEFT_FETCH typename weft_fetched<T, m>::type tex2D(const texture<T, d, m> &t, float x, float y) {
  return tex2D<typename weft_fetched<T, m>::type>(weft_object_of(t), x, y);
}
template <typename T, int d, enum cudaTextureReadMode m>
WEFT_FETCH typename weft_fetched<T, m>::type tex3D(const texture<T, d, m> &t, float x, float y, float z) {
  return tex3D<typename weft_fetched<T, m>::type>(weft_object_of(t), x, y, z);
}

// Surfaces: x in bytes, y and z in elements.
template <typename T> WEFT_FETCH T *weft_surface_at(cudaSurfaceObject_t o, int x, int y, int z) {
  const weft_texture *t = (const weft_texture *)o;
  return (T *)((char *)t->data + z * t->slice + y * t->pitch + x);
}
template <typename T> WEFT_FETCH T surf1Dread(cudaSurfaceObject_t o, int x, int = 0) { return *weft_surface_at<T>(o, x, 0, 0); }
template <typename T> WEFT_FETCH T surf2Dread(cudaSurfaceObject_t o, int x, int y, int = 0) { return *weft_surface_at<T>(o, x, y, 0); }
template <typename T> WEFT_FETCH T surf3Dread(cudaSurfaceObject_t o, int x, int y, int z, int = 0) { return *weft_surface_at<T>(o, x, y, z); }
template <typename T> WEFT_FETCH void surf2Dread(T *to, cudaSurfaceObject_t o, int x, int y, int = 0) { *to = *weft_surface_at<T>(o, x, y, 0); }
template <typename T> WEFT_FETCH void surf1Dwrite(T v, cudaSurfaceObject_t o, int x, int = 0) { *weft_surface_at<T>(o, x, 0, 0) = v; }
template <typename T> WEFT_FETCH void surf2Dwrite(T v, cudaSurfaceObject_t o, int x, int y, int = 0) { *weft_surface_at<T>(o, x, y, 0) = v; }
template <typename T> WEFT_FETCH void surf3Dwrite(T v, cudaSurfaceObject_t o, int x, int y, int z, int = 0) { *weft_surface_at<T>(o, x, y, z) = v; }
#undef WEFT_FETCH
