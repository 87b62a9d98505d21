package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/local/instance"
)

const buckets = "/v1/accounts/demo/key-buckets"

func bucket(name string) string { return buckets + "/" + name + "-bucket" }

// consumer is the body that makes the one with a number.
func consumer(n int) string { return fmt.Sprintf(`{"name":"c%07d"}`, n) }

// client speaks to the product.
type client struct {
	*instance.Instance
	http  *http.Client
	turns *instance.Turns
}

// newClient makes a client of the product with its account keys.
func newClient(ctx context.Context, i *instance.Instance) (client, error) {
	turns, err := i.Turns(ctx)
	return client{i, &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: writers}}, turns}, err
}

// do makes a request, whose answer has to have the status.
func (c client) do(ctx context.Context, method, path, body string, status int, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.API+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.turns.Next())
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
	if err := c.do(ctx, http.MethodPost, buckets, fmt.Sprintf(`{"name":"%s-bucket"}`, name), http.StatusOK, nil); err != nil {
		return err
	}
	return each(ctx, writers, n, func(ctx context.Context, i int) error {
		return c.do(ctx, http.MethodPost, bucket(name)+"/consumers", consumer(i), http.StatusOK, nil)
	})
}

// each calls do for the numbers below n, so many at once.
func each(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range workers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// first gives the median time of listing the first 100 consumers.
func (c client) first(ctx context.Context, name string) (time.Duration, error) {
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
	median, _ := sorted(took)
	return median, nil
}

// page is how many consumers a request lists, of all.
const page = 1000

// listAll lists all consumers, as a client does that wants them all.
func (c client) listAll(ctx context.Context, name string, n int) error {
	path := fmt.Sprintf("%s/consumers?limit=%d", bucket(name), page)
	found := 0
	for after := ""; ; {
		var answer struct {
			Data []struct{}
			Next string
		}
		if err := c.do(ctx, http.MethodGet, path+after, "", http.StatusOK, &answer); err != nil {
			return err
		}
		if found += len(answer.Data); answer.Next == "" {
			break
		}
		after = "&after=" + answer.Next
	}
	if found != n {
		return fmt.Errorf("%d consumers are listed of %d", found, n)
	}
	return nil
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
