//go:build !linux

package socket

import (
	"errors"
	"syscall"
)

// Poller is for Linux only.
type Poller struct{}

// NewPoller returns errors.ErrUnsupported.
func NewPoller() (*Poller, error) { return nil, errors.ErrUnsupported }

// Add returns errors.ErrUnsupported.
func (*Poller) Add(syscall.Conn, uint64) error { return errors.ErrUnsupported }

// Wait returns errors.ErrUnsupported.
func (*Poller) Wait(ids []uint64) ([]uint64, error) { return ids, errors.ErrUnsupported }

// Close does nothing.
func (*Poller) Close() error { return nil }
