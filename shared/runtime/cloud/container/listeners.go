package container

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

// listeners are the listeners of a service. main is the listener at Port, with TLS unless the service runs without TLS
// (newCertificate). plain is nil if the service has no address for plain HTTP. admin is nil if it has no address for
// operators.
type listeners struct{ main, plain, admin net.Listener }

func (l listeners) close() {
	for _, ln := range []net.Listener{l.main, l.plain, l.admin} {
		if ln != nil {
			_ = ln.Close()
		}
	}
}

func openListeners(ctx context.Context, s service.Service, getenv func(string) string) (l listeners, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	for _, name := range []string{s.Listen, s.Plain, s.Admin.Listen} { // check all addresses before listening
		if addr := getenv(name); name != "" && addr != "" {
			if err := config.CheckAddress(name, addr); err != nil {
				return l, fmt.Errorf("read the environment: %w", err)
			}
		}
	}
	if l.main, err = listen.Open(ctx, cmp.Or(getenv(s.Listen), ":"+strconv.Itoa(s.Port.Listen)), "the service "+s.Name,
		s.Listen); err != nil {
		return l, err
	}
	if addr := getenv(s.Plain); s.Plain != "" && addr != "" {
		if l.plain, err = listen.Open(ctx, addr, "the service "+s.Name+" by plain HTTP", s.Plain); err != nil {
			return l, err
		}
	}
	if s.Admin.Listen != "" {
		l.admin, err = listen.Open(ctx, cmp.Or(getenv(s.Admin.Listen), s.Admin.Default), "operators", s.Admin.Listen)
	}
	return l, err
}
