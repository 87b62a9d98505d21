// Package arm64 has the test that the product runs on 64-bit ARM, which functions in AWS and many servers
// are, on a machine that is none: `make test-arm` starts it under an emulator of processors (qemu-user) and
// types README's five minutes. Command bench starts each function in the same way, once.
//
// What it is not: a measurement. An emulator is slower by an order of magnitude.
package arm64
