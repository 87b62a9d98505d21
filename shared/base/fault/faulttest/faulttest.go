// Package faulttest checks in tests that an error is the expected fault, by its kind and its text.
//
// It does not check problem documents, which package api creates from faults. This is the only file.
package faulttest

import (
	"strings"

	"github.com/gatewright/gatewright/shared/base/fault"
)

// T is the part of *testing.T that Check needs.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Check fails the test unless err is a fault of this kind, and the fault's text contains the given text. The text of a
// fault includes its cause.
func Check(t T, err error, kind fault.Kind, text string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("error = %v (fault: %t, kind %v), want a fault of the kind %v with %q in its text",
			err, fault.Is(err, fault.KindOf(err)), fault.KindOf(err), kind, text)
	}
}
