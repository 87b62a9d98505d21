package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
)

// The limits of the search.
const (
	maxAlone         = 100 * time.Millisecond // the median time of a search by one client
	maxQueued        = time.Second            // the longest time of a search while other clients search
	maxSearchMemory  = 150 << 20              // bytes of memory that searches take
	maxVisitorMemory = 16 << 20               // bytes of memory that remain after many clients with one request each
)

// searcher searches the documentation through /mcp/docs.
type searcher struct {
	product       *fixture.Product
	questions     []string
	questionCount atomic.Int64

	mu    sync.Mutex
	modes map[string]int // the number of searches by mode: semantic or lexical
}

// readQuestions returns the questions that also measure the quality of the search.
func readQuestions() (all []string, err error) {
	text, err := os.ReadFile("shared/management/docsearch/testdata/answerable.txt")
	if err != nil {
		return nil, fmt.Errorf("read the questions: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if question, _, ok := strings.Cut(line, " -> "); ok && !strings.HasPrefix(line, "#") {
			all = append(all, question)
		}
	}
	return all, nil
}

// next returns a question that no earlier search has sent.
func (s *searcher) next() string {
	n := s.questionCount.Add(1)
	return fmt.Sprintf("%s (%d)", s.questions[int(n)%len(s.questions)], n)
}

// load returns a load of one request. Each client number has a separate address (127.0.0.0/8 has 16 million), because
// the server limits the rate of each address.
func (s *searcher) load(client int, body string) load.Load {
	l := s.product.Management("POST", "/mcp/docs", body)
	l.Request = load.Request("POST", "/mcp/docs", l.Address, "", body)
	l.Requests = 1
	l.Dial = func(ctx context.Context, _ int) (net.Conn, error) {
		ip := net.ParseIP(fmt.Sprintf("127.%d.%d.%d", 1+client/65536, client/256%256, client%256))
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}}).DialContext(ctx, "tcp", l.Address)
	}
	return l
}

// search sends one question as the client with this number. It returns the latency, and counts the mode of the response
// in modes.
func (s *searcher) search(ctx context.Context, client int, question string) (time.Duration, error) {
	quoted, err := json.Marshal(question)
	if err != nil {
		return 0, fmt.Errorf("write a question: %w", err)
	}
	l := s.load(client, message("tools/call", `{"name":"search-gatewright-docs","arguments":{"query":`+
		string(quoted)+`}}`))
	l.Check = func(body []byte) error {
		var out struct {
			Result struct{ StructuredContent struct{ Mode string } }
		}
		if err := json.Unmarshal(body, &out); err != nil || out.Result.StructuredContent.Mode == "" {
			return errors.Join(fmt.Errorf("a search returned no result with a mode: %.300s", body), err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.modes[out.Result.StructuredContent.Mode]++
		return nil
	}
	result, err := l.Send(ctx)
	return result.Percentile(100), err
}

// searches measures the time of one search at a time and of sixteen concurrent searches, the memory that searches take,
// and the memory that remains after many clients.
func searches(ctx context.Context, m *measurement, product *fixture.Product) error {
	questions, err := readQuestions()
	if err != nil {
		return err
	}
	s := &searcher{product: product, questions: questions, modes: map[string]int{}}
	before, err := product.Memory()
	if err != nil {
		return err
	}
	first, err := s.search(ctx, 0, s.next())
	if err != nil {
		return err
	}
	m.Row("the first search, which reads the index and the weights", "", millis(first), true)
	if err := s.measureAlone(ctx, m); err != nil {
		return err
	}
	if s.modes["lexical"] > 0 {
		return errors.New("a search by one client alone was lexical: the product does not find its weights, so check " +
			"GATEWRIGHT_DOCS_WEIGHTS")
	}
	if err := s.measureConcurrent(ctx, m); err != nil {
		return err
	}
	after, err := product.Memory()
	if err != nil {
		return err
	}
	grown := after.Max - before.Now
	m.Row("memory of the searches, at most", megabytes(maxSearchMemory),
		fmt.Sprintf("%s, %s of it not mapped from files", megabytes(grown), megabytes(after.Anonymous-before.Anonymous)),
		grown <= maxSearchMemory)
	for n := range m.Number("visitors") {
		if _, err := s.load(1000+n, message("ping", "{}")).Send(ctx); err != nil {
			return err
		}
	}
	if err := product.WaitIdle(ctx); err != nil {
		return err
	}
	remaining, err := product.Memory()
	if err != nil {
		return err
	}
	m.Row(fmt.Sprintf("memory that remains after %d clients with one request each", m.Number("visitors")),
		megabytes(maxVisitorMemory),
		megabytes(remaining.Anonymous-after.Anonymous), remaining.Anonymous-after.Anonymous <= maxVisitorMemory)
	return nil
}

// searchers is the number of clients that search concurrently.
const searchers = 16

// measureAlone measures searches one after another, and sends each question twice.
func (s *searcher) measureAlone(ctx context.Context, m *measurement) error {
	var firstTimes, repeatTimes []time.Duration
	for n := range m.Number("searches") {
		question := s.next()
		for _, times := range []*[]time.Duration{&firstTimes, &repeatTimes} {
			elapsed, err := s.search(ctx, 1+n%searchers, question)
			if err != nil {
				return err
			}
			*times = append(*times, elapsed)
		}
	}
	median, _ := medianAndLongest(firstTimes)
	m.Row(fmt.Sprintf("a search by one client alone, median of %d", len(firstTimes)), millis(maxAlone),
		fmt.Sprintf("%s, 99th percentile %s", millis(median), millis(load.Percentile(firstTimes, 99))), median <= maxAlone)
	m.Row("the same question again", "", millis(load.Median(repeatTimes)), true)
	return nil
}

// measureConcurrent measures the searches of sixteen concurrent clients. Each sends as many requests as the rate limit
// of its address allows.
func (s *searcher) measureConcurrent(ctx context.Context, m *measurement) error {
	const interval = 110 * time.Millisecond // each address may send ten requests a second
	var mu sync.Mutex
	var times []time.Duration
	s.modes = map[string]int{}
	group, ctx := errgroup.WithContext(ctx)
	for client := range searchers {
		group.Go(func() error {
			for range m.Number("searches") / searchers {
				startedAt := time.Now()
				elapsed, err := s.search(ctx, 100+client, s.next())
				if err != nil {
					return err
				}
				mu.Lock()
				times = append(times, elapsed)
				mu.Unlock()
				if err := fixture.Wait(ctx, time.Until(startedAt.Add(interval))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	median, longest := medianAndLongest(times)
	m.Row(fmt.Sprintf("searches of %d clients at once, the longest of %d", searchers, len(times)), millis(maxQueued),
		fmt.Sprintf("%s, median %s; %d semantic, and %d lexical because too many were waiting", millis(longest),
			millis(median), s.modes["semantic"], s.modes["lexical"]), longest <= maxQueued)
	return nil
}
