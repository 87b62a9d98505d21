// Package arm64 tests that the product runs on 64-bit ARM, the architecture of functions in AWS and of many servers, on
// a machine with another processor: `make test-arm` starts the product under a processor emulator (qemu-user) and runs
// the commands of the section "Five minutes" of the README. Command bench starts each function in the same manner,
// once.
//
// It does not measure anything, because an emulator is slower by an order of magnitude. All of it is in arm64_test.go.
package arm64
