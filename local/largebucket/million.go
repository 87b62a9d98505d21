package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/local/instance/fill"
)

// The bars (issue 9, "Figures").
const (
	mostMemory  = 200 << 20
	mostRestart = time.Second
)

const (
	// kills is how often the large product is killed and started again.
	kills = 5
	// worked is how long clients use it before each.
	worked = 3 * time.Second
)

// million measures a product with n consumers.
func million(ctx context.Context, dir, binary string, n int, table *bars.Table) error {
	c, err := startedIn(ctx, dir, binary)
	if err != nil {
		return err
	}
	c.Stop()
	began := time.Now()
	if err := fill.Make(ctx, c.Data(), c.Key, fill.Bucket{Buckets: buckets, Name: "million-bucket", Consumers: n, Consumer: consumer}); err != nil {
		return fmt.Errorf("fill a bucket: %w", err)
	}
	table.Add(fmt.Sprintf("making %d consumers in process, without HTTP and without waiting for the disk", n), "", fmt.Sprint(time.Since(began).Round(time.Second)), true)
	return killed(ctx, dir, binary, n, table)
}

// killed uses a product with n consumers, kills it, and starts it again.
func killed(ctx context.Context, dir, binary string, n int, table *bars.Table) error {
	c, err := startedIn(ctx, dir, binary)
	if err != nil {
		return err
	}
	defer func() { c.Kill() }()
	if err := c.Quiet(ctx); err != nil { // it has the changes to go through, and tables to put in order
		return err
	}
	var most int64
	var restarts []time.Duration
	for range kills {
		if err := c.use(ctx, n); err != nil {
			return err
		}
		m, err := c.Memory()
		if err != nil {
			return err
		}
		most = max(most, m.Most)
		c.Kill()
		began := time.Now()
		if c, err = startedIn(ctx, dir, binary); err != nil {
			return err
		}
		restarts = append(restarts, time.Since(began))
	}
	if err := c.Quiet(ctx); err != nil {
		return err
	}
	m, err := c.Memory()
	if err != nil {
		return err
	}
	last := fmt.Sprintf("c%07d", n-1)
	if err := c.do(ctx, http.MethodGet, bucket("million")+"/consumers/"+last, "", http.StatusOK, nil); err != nil {
		return err
	}
	median, longest := sorted(restarts)
	table.Add(fmt.Sprintf("memory with %d consumers, the most while %d clients read, list and write", n, writers),
		fmt.Sprintf("%d MB", mostMemory>>20), fmt.Sprintf("%d MB", most>>20), most < mostMemory)
	table.Add("memory with them after a start, at rest", "", fmt.Sprintf("%d MB, %d MB of them its program's", m.Now>>20, (m.Now-m.Own)>>20), true)
	table.Add(fmt.Sprintf("start with them after `kill -9`, median of %d", kills), fmt.Sprint(mostRestart),
		fmt.Sprintf("%v, the longest %v", median.Round(time.Millisecond), longest.Round(time.Millisecond)), median < mostRestart)
	return nil
}

// use has clients read consumers all over the bucket, list some, and make and
// delete others, until the time is over.
func (c client) use(ctx context.Context, n int) error {
	in := bucket("million") + "/consumers"
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			for i := 0; time.Since(began) < worked; i++ {
				name := fmt.Sprintf("%s/c%07d", in, (w+1)*(i+1)*7919%n)
				extra := fmt.Sprintf("extra-%d-%d", w, i)
				for _, err := range []error{
					c.do(ctx, http.MethodGet, name, "", http.StatusOK, nil),
					c.do(ctx, http.MethodGet, in+"?limit=100", "", http.StatusOK, nil),
					c.do(ctx, http.MethodPost, in+"?with-api-key=true", `{"name":"`+extra+`"}`, http.StatusOK, nil),
					c.do(ctx, http.MethodDelete, in+"/"+extra, "", http.StatusNoContent, nil),
				} {
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}
