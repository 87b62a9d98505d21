//go:build !linux

package containertest

import "testing"

// Main is a TestMain: it runs the tests and then the functions after them. On systems other than Linux there are no containers.
func Main(m *testing.M, after ...func()) { run(m, after) }
