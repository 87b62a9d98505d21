// Package faulttest says in tests which fault is wanted, by its kind and what a caller is told.
//
// What it is not: it knows no problem document, which is what package api makes of a fault. There is only this file.
package faulttest

import (
	"strings"

	"github.com/gatewright/gatewright/shared/fault"
)

// T is the part of *testing.T that Want needs.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Want fails the test unless err is a fault of the kind whose text has text in it.
func Want(t T, err error, kind fault.Kind, text string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (kind %d), want kind %d with %q", err, fault.KindOf(err), kind, text)
	}
}
