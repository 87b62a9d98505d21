package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// The bars (issue 9, "Figures").
const (
	leastCommits = 4.0 // times dynoxide's with 16 writers
	// leastOfDisk is for one writer, who waits for the disk at each commit, alone:
	// where it is slow, that many times are more syncs than it makes.
	leastOfDisk = 0.5
	mostCheck   = 0.1 // of dynoxide's time
)

const (
	turns   = 3
	writers = 16
	// itemBytes is the size of each of the four items of a commit.
	itemBytes = 600
)

// compare measures both engines in turns, so that what else the machine does meets
// both.
func compare(ctx context.Context, o options, dir string, table *bars.Table) (err error) {
	files := embedded.Options{Dir: filepath.Join(dir, datadir.Engine)}
	engine, err := embedded.Open(ctx, files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	dynoxide, stop, err := startDynoxide(ctx, filepath.Join(dir, "dynoxide"))
	if err != nil {
		return err
	}
	defer stop()
	ours := store.New(engine, store.Options{Random: rand.Reader, Now: time.Now})

	var one, many, theirs, disk []float64
	for range turns {
		own, err := syncs(filepath.Join(dir, "syncs"), o.turn)
		if err != nil {
			return err
		}
		disk = append(disk, own)
		for _, m := range []struct {
			table   *store.Table
			writers int
			to      *[]float64
		}{{ours, 1, &one}, {ours, writers, &many}, {dynoxide, writers, &theirs}} {
			rate, err := commits(ctx, m.table, m.writers, o.turn)
			if err != nil {
				return err
			}
			*m.to = append(*m.to, rate)
		}
	}
	base := load.Median(theirs)
	table.Add("syncs a second that the disk makes, of 4 kB at the end of a file", "", fmt.Sprintf("%.0f", load.Median(disk)), true)
	table.Add(fmt.Sprintf("commits a second, dynoxide, %d writers", writers), "", fmt.Sprintf("%.0f", base), true)
	alone, together := load.Median(one), load.Median(many)
	table.Add("commits a second, synced, 1 writer", fmt.Sprintf("%.0f times dynoxide's with %d, or %.1f of the disk's syncs", leastCommits, writers, leastOfDisk),
		fmt.Sprintf("%.0f, %.1f times, %.2f of the disk's", alone, alone/base, alone/load.Median(disk)), alone >= leastCommits*base || alone >= leastOfDisk*load.Median(disk))
	table.Add(fmt.Sprintf("commits a second, synced, %d writers", writers), fmt.Sprintf("%.0f times dynoxide's with %d", leastCommits, writers),
		fmt.Sprintf("%.0f, %.1f times", together, together/base), together >= leastCommits*base)

	checkOurs, err := keyChecks(ctx, ours, filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	checkTheirs, err := keyChecks(ctx, dynoxide, filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	share := checkOurs.Seconds() / checkTheirs.Seconds()
	table.Add("check of a key that was not seen, dynoxide", "", fmt.Sprint(checkTheirs.Round(time.Microsecond)), true)
	table.Add("check of a key that was not seen", fmt.Sprintf("%.1f of dynoxide's", mostCheck),
		fmt.Sprintf("%v, %.3f of it", checkOurs.Round(time.Microsecond), share), share <= mostCheck)
	return nil
}

// startDynoxide starts the emulator over a file, as `make run-lambda` does.
func startDynoxide(ctx context.Context, path string) (*store.Table, func(), error) {
	binary, err := emulator.FindDynoxide(os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	dir, err := datadir.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if _, err := dir.Sub("logs"); err != nil {
		return nil, nil, err
	}
	e, err := emulator.StartDynamoDB(ctx, dir, binary, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	const name = "gatewright"
	client := store.Connect(aws.Config{
		Region: emulator.Region, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	}, e.Endpoint)
	if err := store.CreateTable(ctx, client, name); err != nil {
		e.Stop()
		return nil, nil, err
	}
	return store.New(store.NewDynamoDB(client, name), store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: true}), e.Stop, nil
}

type item struct {
	Data []byte `dynamodbav:"data"`
}

// syncs gives how many small writes at the end of a file this disk keeps in a
// second, one after the other: no engine makes more commits for one writer.
func syncs(path string, turn time.Duration) (rate float64, err error) {
	file, err := os.Create(path) //nolint:gosec // G304: in a folder of ours
	if err != nil {
		return 0, fmt.Errorf("make a file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(path)) }()
	block := make([]byte, 4<<10)
	began, n := time.Now(), 0
	for ; time.Since(began) < turn; n++ {
		if _, err := file.Write(block); err != nil {
			return 0, fmt.Errorf("write a file: %w", err)
		}
		if err := file.Sync(); err != nil {
			return 0, fmt.Errorf("sync a file: %w", err)
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// commits gives how many transactions of four conditional writes are made in a
// second.
func commits(ctx context.Context, table *store.Table, writers int, turn time.Duration) (float64, error) {
	record := item{make([]byte, itemBytes)}
	run := rand.Text()
	var made atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, writers)
	began := time.Now()
	for w := range writers {
		all.Go(func() {
			for n := 0; time.Since(began) < turn; n++ {
				var writes []store.Write
				for i := range 4 {
					writes = append(writes, store.Create(store.In(fmt.Sprintf("%s-%d-%d", run, w, n), fmt.Sprint(i)), record))
				}
				if err := table.Commit(ctx, writes...); err != nil {
					failed <- err
					return
				}
				made.Add(1)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	select {
	case err := <-failed:
		return 0, fmt.Errorf("commit: %w", err)
	default:
		return float64(made.Load()) / took.Seconds(), nil
	}
}
