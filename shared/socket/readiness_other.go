//go:build !linux

package socket

import (
	"errors"
	"syscall"
)

// Readiness is for Linux alone.
type Readiness struct{}

// NewReadiness answers errors.ErrUnsupported.
func NewReadiness() (*Readiness, error) { return nil, errors.ErrUnsupported }

// Add answers errors.ErrUnsupported.
func (*Readiness) Add(syscall.Conn, uint64) error { return errors.ErrUnsupported }

// Wait answers errors.ErrUnsupported.
func (*Readiness) Wait(ids []uint64) ([]uint64, error) { return ids, errors.ErrUnsupported }

// Close does nothing.
func (*Readiness) Close() error { return nil }
