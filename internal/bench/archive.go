package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/testing/freeport"
)

// maxArchive is the maximum median of the time from the start of unpacking a release archive to the first response of
// its server.
const maxArchive = 3 * time.Second

func archives() []scenario {
	return []scenario{{
		title: "The start of a release archive",
		text: "The time to unpack the release archive for this machine into a new folder, and to start its server with a " +
			"new data directory, until the first answer.\n" +
			"The limit is 3 s.",
		options: "starts=5 archive=made-by-make-package",
		run: func(ctx context.Context, m *measurement) error {
			archive := m.Text("archive")
			if archive == "made-by-make-package" {
				platform := "linux-" + runtime.GOARCH
				if _, err := command(ctx, nil, "make", "-s", "package", "PACKAGED="+platform); err != nil {
					return err
				}
				found, err := filepath.Glob("dist/gatewright-*-" + platform + ".tar.gz")
				if err != nil || len(found) != 1 {
					return fmt.Errorf(
						"dist has %d archives for %s instead of 1: remove the others, or name one with -set archive=FILE", len(found),
						platform)
				}
				archive = found[0]
			}
			var unpacking, all []time.Duration
			for n := range max(m.Number("starts"), 1) {
				unpackTime, total, err := startArchive(ctx, m, archive, fmt.Sprint("archive-", n))
				if err != nil {
					return err
				}
				unpacking, all = append(unpacking, unpackTime), append(all, total)
			}
			median, longest := medianAndLongest(all)
			m.Row("from the archive to the first answer, median", maxArchive.String(), millis(median), median <= maxArchive)
			m.Row("part of it that is unpacking, median", "", millis(load.Median(unpacking)), true)
			m.Row("from the archive to the first answer, longest", "", millis(longest), true)
			return nil
		},
	}}
}

// startArchive unpacks an archive and starts its server. It returns the time that unpacking took, and the total time
// until the first response.
func startArchive(
	ctx context.Context, m *measurement, archive, name string,
) (unpackTime, total time.Duration, err error) {
	folder, err := m.Folder(name)
	if err != nil {
		return 0, 0, err
	}
	api, err := freeport.Find(ctx)
	if err != nil {
		return 0, 0, err
	}
	gateway, err := freeport.Find(ctx)
	if err != nil {
		return 0, 0, err
	}
	startedAt := time.Now()
	//nolint:gosec // G204: the user of the command chose the archive
	tar := exec.CommandContext(ctx, "tar", "-xzf", archive, "-C", folder)
	if out, err := tar.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("unpack %s: %w: %s", archive, err, out)
	}
	unpackTime = time.Since(startedAt)
	//nolint:gosec // G204: a program from the archive
	cmd := exec.CommandContext(ctx, filepath.Join(folder, "usr", "local", "bin", "gatewright-server"), "serve")
	cmd.Env = []string{
		"HOME=" + folder, config.VarDomain + "=apis.example.com", config.VarDataDir + "=" + filepath.Join(folder, "data"),
		config.VarTLSAddr + "=" + config.NoAddr, config.VarAPIAddr + "=" + api.String(),
		config.VarGatewayAddr + "=" + gateway.String(),
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, 0, fmt.Errorf("start the server: %w", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, so Wait returns an error
	}()
	first := load.Load{Address: api.String(), Request: load.Request("GET", "/openapi", api.String(), "", "")}
	err = fixture.Until(ctx, "the first response", func() (bool, error) {
		_, err := first.Once(ctx)
		return err == nil, nil
	})
	return unpackTime, time.Since(startedAt), err
}
