//go:build !linux

package containertest

import "testing"

// Main implements TestMain: it runs the tests and then the functions in after. Systems other than Linux have no
// containers.
func Main(m *testing.M, after ...func()) { run(m, after) }
