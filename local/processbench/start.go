package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
)

const mostStart = 150 * time.Millisecond

// starts measures from a gateway's start to its first answer of a deployment, whose artifact is there: with a key, a strict limit and
// an upstream.
func starts(ctx context.Context, dir string, o options, table *bars.Table) error {
	in, err := newInstallation(ctx, filepath.Join(dir, "start"), o)
	if err != nil {
		return err
	}
	defer in.stop()
	var answered, listens []time.Duration
	for n := range o.starts + 1 {
		at, err := some(ctx)
		if err != nil {
			return err
		}
		p, err := in.start(at)
		if err != nil {
			return err
		}
		c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			TLSClientConfig: in.tls(in.host),
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, at.secure)
			},
		}}
		err = ask(ctx, c, "https://"+in.host+"/wait/0", in.key)
		took := time.Since(p.began)
		c.CloseIdleConnections()
		if stopped := p.stop(); err == nil {
			err = stopped
		}
		if err != nil {
			return err
		}
		if n > 0 { // the first one reads the binary from the disk
			answered, listens = append(answered, took), append(listens, p.listens.Sub(p.began))
		}
	}
	worst := slices.Max(answered)
	half := load.Median(answered)
	table.Add(fmt.Sprintf("start of a gateway to its first answer, by TLS with a key and a strict limit, median of %d", o.starts), "150 ms",
		fmt.Sprintf("%d ms, the longest %d ms; it listens after %d ms", half.Milliseconds(), worst.Milliseconds(), load.Median(listens).Milliseconds()), half <= mostStart)
	return nil
}
