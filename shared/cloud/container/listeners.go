package container

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/service"
)

// listeners are those of a service; plain and admin are nil where it has none.
type listeners struct{ tls, plain, admin net.Listener }

func (l listeners) close() {
	for _, one := range []net.Listener{l.tls, l.plain, l.admin} {
		if one != nil {
			_ = one.Close()
		}
	}
}

func listenersOf(ctx context.Context, s service.Service, getenv func(string) string) (l listeners, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	for _, name := range []string{s.Listen, s.Plain, s.Admin.Listen} { // all of them, before any is listened on
		if at := getenv(name); name != "" && at != "" {
			if err := config.CheckAddress(name, at); err != nil {
				return l, fmt.Errorf("read the environment: %w", err)
			}
		}
	}
	if l.tls, err = listen.On(ctx, cmp.Or(getenv(s.Listen), ":"+strconv.Itoa(s.Port.Listens)), "the service "+s.Name, s.Listen); err != nil {
		return l, err
	}
	if at := getenv(s.Plain); s.Plain != "" && at != "" {
		if l.plain, err = listen.On(ctx, at, "the service "+s.Name+" by plain HTTP", s.Plain); err != nil {
			return l, err
		}
	}
	if s.Admin.Listen != "" {
		l.admin, err = listen.On(ctx, cmp.Or(getenv(s.Admin.Listen), s.Admin.Default), "operators", s.Admin.Listen)
	}
	return l, err
}
