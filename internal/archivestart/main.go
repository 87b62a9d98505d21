// Command archivestart measures how long a release archive for this machine takes to its first answer: it unpacks the archive
// into a new folder, starts the server with a new data directory, and sends requests to the management API until one succeeds.
//
//	make package PACKAGED=linux-amd64
//	go run ./internal/archivestart -archive dist/gatewright-0.1.0-linux-amd64.tar.gz
//
// It prints the median and the longest of several starts, and fails if the median is above its bar. It is not for a
// comparison of servers: package bench measures requests. There is only this file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/shared/config"
)

const (
	// maxFirstAnswer is the bar of the median.
	maxFirstAnswer = 3 * time.Second
	// timeout ends a start that never answers.
	timeout = time.Minute
)

func main() {
	archive := flag.String("archive", "", "the archive, as make package writes it")
	starts := flag.Int("starts", 5, "how often it is unpacked and started, 1 at least")
	flag.Parse()
	bars.Main(context.Background(), "archivestart", func(ctx context.Context, dir string, table *bars.Table) error {
		var all, unpacking []time.Duration
		for n := range max(*starts, 1) {
			unpacked, total, err := measure(ctx, *archive, filepath.Join(dir, fmt.Sprint(n)))
			if err != nil {
				return err
			}
			unpacking, all = append(unpacking, unpacked), append(all, total)
		}
		slices.Sort(all)
		slices.Sort(unpacking)
		median := all[len(all)/2]
		table.Add("archive to its first answer, median", maxFirstAnswer.String(), rounded(median), median <= maxFirstAnswer)
		table.Add("of it, unpacking", "", rounded(unpacking[len(unpacking)/2]), true)
		table.Add("archive to its first answer, longest", "", rounded(all[len(all)-1]), true)
		return nil
	})
}

func rounded(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// measure returns how long unpacking took, and how long it took in all until an answer came.
func measure(ctx context.Context, archive, folder string) (unpacked, total time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := os.Mkdir(folder, 0o700); err != nil {
		return 0, 0, fmt.Errorf("make a folder: %w", err)
	}
	api, err := free.Find(ctx)
	if err != nil {
		return 0, 0, err
	}
	gateway, err := free.Find(ctx)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if out, err := exec.CommandContext(ctx, "tar", "-xzf", archive, "-C", folder).CombinedOutput(); err != nil { //nolint:gosec // G204: the caller's archive
		return 0, 0, fmt.Errorf("unpack %s: %w: %s", archive, err, out)
	}
	unpacked = time.Since(begin)
	cmd := exec.CommandContext(ctx, filepath.Join(folder, "usr", "local", "bin", "gatewright-server"), "serve") //nolint:gosec // G204: what was unpacked
	cmd.Env = []string{
		"HOME=" + folder, config.VarDomain + "=apis.example.com", config.VarDataDir + "=" + filepath.Join(folder, "data"),
		config.VarTLSAddr + "=" + config.NoAddr, config.VarAPIAddr + "=" + api.String(), config.VarGatewayAddr + "=" + gateway.String(),
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, 0, fmt.Errorf("start the server: %w", err)
	}
	err = firstAnswer(ctx, "http://"+api.String()+"/openapi")
	total = time.Since(begin)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it ends by the signal
	return unpacked, total, err
}

// firstAnswer waits until a request succeeds.
func firstAnswer(ctx context.Context, url string) error {
	client := &http.Client{Transport: &http.Transport{Proxy: nil}}
	defer client.CloseIdleConnections()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("ask for the first answer: %w", err)
		}
		if out, err := client.Do(r); err == nil {
			_ = out.Body.Close()
			if out.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("the server gives no answer"), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
