// Command largebucket measures what the size of a key bucket costs: it fills
// buckets of 1,000 and of 100,000 consumers through the API of a product of its
// own, lists 100 consumers of each, deletes the large one, and waits until
// nothing of it is left in the table.
//
// `make bench` runs it. It fails when the deletion takes 100 ms or more, or when
// the bucket can still be seen after it. There is only this file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/local/instance"
)

func main() {
	binary := flag.String("binary", "", "the product's binary, as `go build ./local` makes it")
	consumers := flag.Int("consumers", 100_000, "how many consumers the large bucket has")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *binary, *consumers); err != nil {
		fmt.Fprintln(os.Stderr, "largebucket:", err)
		os.Exit(1)
	}
}

const (
	small    = 1000
	writers  = 16
	lists    = 20
	deadline = 100 * time.Millisecond // of the deletion's answer (issue 3, part 6)
	emptying = 30 * time.Minute
)

func run(ctx context.Context, binary string, consumers int) (err error) {
	dir, err := os.MkdirTemp("", "gatewright-largebucket-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	i, err := instance.Start(ctx, dir, "", binary)
	if err != nil {
		return err
	}
	defer i.Stop()
	c := client{i, &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: writers}}}

	began := time.Now()
	if err := c.fill(ctx, "small", small); err != nil {
		return err
	}
	if err := c.fill(ctx, "large", consumers); err != nil {
		return err
	}
	filled := time.Since(began)
	first, err := c.list(ctx, "small")
	if err != nil {
		return err
	}
	second, err := c.list(ctx, "large")
	if err != nil {
		return err
	}
	size, err := tableBytes(i)
	if err != nil {
		return err
	}

	began = time.Now()
	if err := c.do(ctx, http.MethodDelete, bucket("large"), "", http.StatusNoContent, nil); err != nil {
		return err
	}
	deleted := time.Since(began)
	if deleted >= deadline {
		return fmt.Errorf("the deletion was answered after %s", deleted)
	}
	if err := c.do(ctx, http.MethodGet, bucket("large"), "", http.StatusNotFound, nil); err != nil {
		return err
	}
	began = time.Now()
	if err := c.emptied(ctx, consumers); err != nil {
		return err
	}
	fmt.Printf("| | %d consumers | %d consumers |\n|---|---|---|\n", small, consumers)
	fmt.Printf("| list 100 of them, median of %d | %s | %s (%.2f times) |\n", lists, round(first), round(second), second.Seconds()/first.Seconds())
	fmt.Printf("| delete the bucket | | %s |\n", round(deleted))
	fmt.Printf("| empty it afterwards | | %s |\n\n", time.Since(began).Round(time.Second))
	fmt.Printf("Both were filled through the API by %d clients, %.0f consumers a second; the database's file had %d MB then.\n",
		writers, float64(consumers+small)/filled.Seconds(), size>>20)
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

func bucket(name string) string { return "/v1/accounts/demo/key-buckets/" + name + "-bucket" }

// client speaks to the product.
type client struct {
	*instance.Instance
	http *http.Client
}

// do makes a request, whose answer has to have the status.
func (c client) do(ctx context.Context, method, path, body string, status int, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.API+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.Key)
	answer, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if answer.StatusCode != status {
		return fmt.Errorf("%s %s answers %d: %s", method, path, answer.StatusCode, raw)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

// fill makes a bucket with n consumers.
func (c client) fill(ctx context.Context, name string, n int) error {
	if err := c.do(ctx, http.MethodPost, "/v1/accounts/demo/key-buckets", fmt.Sprintf(`{"name":"%s-bucket"}`, name), http.StatusOK, nil); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error {
			return c.do(ctx, http.MethodPost, bucket(name)+"/consumers", fmt.Sprintf(`{"name":"c%07d"}`, i), http.StatusOK, nil)
		})
	}
	return group.Wait()
}

// list returns the median time of listing 100 consumers.
func (c client) list(ctx context.Context, name string) (time.Duration, error) {
	var took []time.Duration
	for range lists {
		began := time.Now()
		var page struct{ Data []any }
		if err := c.do(ctx, http.MethodGet, bucket(name)+"/consumers?limit=100", "", http.StatusOK, &page); err != nil {
			return 0, err
		}
		if len(page.Data) != 100 { // as many as were asked for
			return 0, fmt.Errorf("%d consumers are listed", len(page.Data))
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// emptied waits until the log of the product tells that the operation which
// empties the bucket has ended.
func (c client) emptied(ctx context.Context, consumers int) error {
	ctx, cancel := context.WithTimeout(ctx, emptying)
	defer cancel()
	for {
		log, err := os.ReadFile(filepath.Join(c.Data(), "logs", "gatewright.log"))
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		for line := range strings.SplitSeq(string(log), "\n") {
			if strings.Contains(line, `"kind":"key-bucket-delete"`) && strings.Contains(line, `"status":"success"`) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d consumers were not removed: %w", consumers, ctx.Err())
		case <-time.After(200 * time.Millisecond): // a look at a file
		}
	}
}

// tableBytes is how large the database's file is.
func tableBytes(i *instance.Instance) (int64, error) {
	info, err := os.Stat(filepath.Join(i.Data(), "dynamodb", "table.db"))
	if err != nil {
		return 0, fmt.Errorf("look at the database's file: %w", err)
	}
	return info.Size(), nil
}
