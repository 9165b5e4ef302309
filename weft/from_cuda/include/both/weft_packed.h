// Functions of four bytes or two halves of a word at once, and sums of their products.
#pragma once

#define WEFT_PACKED static __inline__ __device__
// Part k of a word, of so many bits: its number, and a number put there.
#define WEFT_PART(word, bits, k, type) ((int)(type)((word) >> ((bits) * (k))))
#define WEFT_PUT(value, bits, k) (((unsigned int)(value) & ((1u << (bits)) - 1u)) << ((bits) * (k)))
#define WEFT_EACH_OF(name, parts, bits, type, text) \
  WEFT_PACKED unsigned int name##parts(unsigned int x, unsigned int y) { \
    unsigned int result = 0; \
    for (int k = 0; k < parts; k++) { \
      int a = WEFT_PART(x, bits, k, type), b = WEFT_PART(y, bits, k, type); \
      result |= WEFT_PUT(text, bits, k); \
    } \
    return result; \
  }
#define WEFT_SIGNED_EACH(name, text) \
  WEFT_EACH_OF(name, 4, 8, signed char, text) WEFT_EACH_OF(name, 2, 16, short, text)
#define WEFT_UNSIGNED_EACH(name, text) \
  WEFT_EACH_OF(name, 4, 8, unsigned char, text) WEFT_EACH_OF(name, 2, 16, unsigned short, text)
#define WEFT_WITHIN(value, low, high) ((value) < (low) ? (low) : (value) > (high) ? (high) : (value))

WEFT_UNSIGNED_EACH(__vadd, a + b)
WEFT_UNSIGNED_EACH(__vsub, a - b)
WEFT_EACH_OF(__vaddss, 4, 8, signed char, WEFT_WITHIN(a + b, -128, 127))
WEFT_EACH_OF(__vaddss, 2, 16, short, WEFT_WITHIN(a + b, -32768, 32767))
WEFT_EACH_OF(__vsubss, 4, 8, signed char, WEFT_WITHIN(a - b, -128, 127))
WEFT_EACH_OF(__vsubss, 2, 16, short, WEFT_WITHIN(a - b, -32768, 32767))
WEFT_EACH_OF(__vaddus, 4, 8, unsigned char, WEFT_WITHIN(a + b, 0, 255))
WEFT_EACH_OF(__vaddus, 2, 16, unsigned short, WEFT_WITHIN(a + b, 0, 65535))
WEFT_UNSIGNED_EACH(__vsubus, a < b ? 0 : a - b)
WEFT_SIGNED_EACH(__vmaxs, a > b ? a : b)
WEFT_SIGNED_EACH(__vmins, a < b ? a : b)
WEFT_UNSIGNED_EACH(__vmaxu, a > b ? a : b)
WEFT_UNSIGNED_EACH(__vminu, a < b ? a : b)
WEFT_SIGNED_EACH(__vabsdiffs, a > b ? a - b : b - a)
WEFT_UNSIGNED_EACH(__vabsdiffu, a > b ? a - b : b - a)
WEFT_UNSIGNED_EACH(__vavgu, (a + b + 1) >> 1)
WEFT_UNSIGNED_EACH(__vhaddu, (a + b) >> 1)
// Of a test: all bits of a part, or its lowest.
#define WEFT_TESTED(kind, how, text) kind(__vcmp##how, (text) ? -1 : 0) kind(__vset##how, (text) ? 1 : 0)
WEFT_TESTED(WEFT_UNSIGNED_EACH, eq, a == b)
WEFT_TESTED(WEFT_UNSIGNED_EACH, ne, a != b)
WEFT_TESTED(WEFT_SIGNED_EACH, gts, a > b)
WEFT_TESTED(WEFT_SIGNED_EACH, ges, a >= b)
WEFT_TESTED(WEFT_SIGNED_EACH, lts, a < b)
WEFT_TESTED(WEFT_SIGNED_EACH, les, a <= b)
WEFT_TESTED(WEFT_UNSIGNED_EACH, gtu, a > b)
WEFT_TESTED(WEFT_UNSIGNED_EACH, geu, a >= b)
WEFT_TESTED(WEFT_UNSIGNED_EACH, ltu, a < b)
WEFT_TESTED(WEFT_UNSIGNED_EACH, leu, a <= b)
WEFT_PACKED unsigned int __vneg4(unsigned int x) { return __vsub4(0u, x); }
WEFT_PACKED unsigned int __vneg2(unsigned int x) { return __vsub2(0u, x); }
WEFT_PACKED unsigned int __vabs4(unsigned int x) { return __vabsdiffs4(x, 0u); }
WEFT_PACKED unsigned int __vabs2(unsigned int x) { return __vabsdiffs2(x, 0u); }

#define WEFT_SUM_OF_GAPS(name, parts, bits, type) \
  WEFT_PACKED unsigned int name##parts(unsigned int x, unsigned int y) { \
    unsigned int sum = 0; \
    for (int k = 0; k < parts; k++) { \
      int a = WEFT_PART(x, bits, k, type), b = WEFT_PART(y, bits, k, type); \
      sum += (unsigned int)(a > b ? a - b : b - a); \
    } \
    return sum; \
  }
WEFT_SUM_OF_GAPS(__vsads, 4, 8, signed char)
WEFT_SUM_OF_GAPS(__vsads, 2, 16, short)
WEFT_SUM_OF_GAPS(__vsadu, 4, 8, unsigned char)
WEFT_SUM_OF_GAPS(__vsadu, 2, 16, unsigned short)

#define WEFT_PRODUCTS(word, half, byte) \
  WEFT_PACKED word __dp4a(word x, word y, word sum) { \
    for (int k = 0; k < 4; k++) sum += (word)(byte)(x >> (8 * k)) * (word)(byte)(y >> (8 * k)); \
    return sum; \
  } \
  WEFT_PACKED word __dp2a_lo(word x, word y, word sum) { \
    for (int k = 0; k < 2; k++) sum += (word)(half)(x >> (16 * k)) * (word)(byte)(y >> (8 * k)); \
    return sum; \
  } \
  WEFT_PACKED word __dp2a_hi(word x, word y, word sum) { \
    for (int k = 0; k < 2; k++) sum += (word)(half)(x >> (16 * k)) * (word)(byte)(y >> (8 * k + 16)); \
    return sum; \
  }
WEFT_PRODUCTS(int, short, signed char)
WEFT_PRODUCTS(unsigned int, unsigned short, unsigned char)
WEFT_PACKED int __dp4a(char4 x, char4 y, int sum) { return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }
WEFT_PACKED unsigned int __dp4a(uchar4 x, uchar4 y, unsigned int sum) {
  return sum + (unsigned int)x.x * y.x + (unsigned int)x.y * y.y + (unsigned int)x.z * y.z + (unsigned int)x.w * y.w;
}
