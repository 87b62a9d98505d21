package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/local/instance"
)

// The bars of the search (issue 13, parts 9 and 11).
const (
	mostAlone  = 100 * time.Millisecond
	mostBehind = time.Second
	mostMemory = 150 << 20
	// mostVisitors is for the memory that a client leaves behind who comes once.
	mostVisitors = 16 << 20
)

// clients is how many search at once.
const clients = 16

// pace is how often one of them searches at most: an address may send ten calls a second.
const pace = 110 * time.Millisecond

// readQuestions reads a file of questions and what answers them.
func readQuestions(file string) (all []string, err error) {
	text, err := os.ReadFile(file) //nolint:gosec // whoever runs this chose it
	if err != nil {
		return nil, fmt.Errorf("read the questions: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if question, _, ok := strings.Cut(line, " -> "); ok && !strings.HasPrefix(line, "#") {
			all = append(all, question)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no questions", file)
	}
	return all, nil
}

// searches asks /mcp/docs.
type searches struct {
	product   *instance.Instance
	questions []string
	asked     atomic.Int64
}

// next is a question that nobody has asked yet.
func (s *searches) next() string {
	n := s.asked.Add(1)
	return fmt.Sprintf("%s (%d)", s.questions[int(n)%len(s.questions)], n)
}

// client asks from an address of its own: there are 16 million of this machine (127.0.0.0/8), and the server counts by them.
func client(number int) *http.Client {
	from := net.ParseIP(fmt.Sprintf("127.%d.%d.%d", 1+number/65536, number/256%256, number%256))
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
}

// answer is what a search comes to.
type answer struct {
	took time.Duration
	mode string
}

// ask searches once. The error is of all but a result.
func (s *searches) ask(ctx context.Context, c *http.Client, question string) (answer, error) {
	quoted, err := json.Marshal(question)
	if err != nil {
		return answer{}, fmt.Errorf("write a question: %w", err)
	}
	begun := time.Now()
	text, err := s.post(ctx, c, message("tools/call", `{"name":"search-gatewright-docs","arguments":{"query":`+string(quoted)+`}}`))
	took := time.Since(begun)
	if err != nil {
		return answer{}, err
	}
	var out struct {
		Result struct{ StructuredContent struct{ Mode string } }
	}
	if err := json.Unmarshal(text, &out); err != nil || out.Result.StructuredContent.Mode == "" {
		return answer{}, fmt.Errorf("a search is answered %.300s: %w", text, err)
	}
	return answer{took, out.Result.StructuredContent.Mode}, nil
}

func (s *searches) post(ctx context.Context, c *http.Client, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.product.API+"/mcp/docs", strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it is answered %d %.300s: %w", response.StatusCode, text, err)
	}
	return text, nil
}

func (s *searches) measure(ctx context.Context, o options, table *bars.Table) error {
	before, err := s.product.Memory()
	if err != nil {
		return err
	}
	first, err := s.ask(ctx, client(0), s.next())
	if err != nil {
		return err
	}
	if first.mode != "semantic" {
		return errors.New("the product finds no weights to search with: set GATEWRIGHT_DOCS_WEIGHTS to shared/docsearch/minilm/minilm-l6-v2.weights")
	}
	table.Add("the first search, which reads index and weights", "", inMillis(first.took), true)
	if err := s.alone(ctx, o, table); err != nil {
		return err
	}
	if err := s.crowd(ctx, o, table); err != nil {
		return err
	}
	after, err := s.product.Memory()
	if err != nil {
		return err
	}
	grown := after.Most - before.Now
	table.Add("memory of the searches, at most", inMegabytes(mostMemory), fmt.Sprintf("%s, %s of it without the mapped weights", inMegabytes(grown), inMegabytes(after.Own-before.Own)), grown <= mostMemory)
	return s.visitors(ctx, o, after, table)
}

// alone has one client search at a time.
func (s *searches) alone(ctx context.Context, o options, table *bars.Table) error {
	var fresh, again []time.Duration
	from := make([]*http.Client, clients) // addresses take turns
	for i := range from {
		from[i] = client(1 + i)
	}
	for n := range o.searches {
		question := s.next()
		for _, times := range []*[]time.Duration{&fresh, &again} {
			a, err := s.ask(ctx, from[n%len(from)], question)
			if err != nil {
				return err
			}
			if a.mode != "semantic" {
				return errors.New("a search with nobody before it is by words")
			}
			*times = append(*times, a.took)
		}
	}
	median := load.Median(fresh)
	table.Add("a search with nobody before it, median of "+fmt.Sprint(len(fresh)), inMillis(mostAlone), fmt.Sprintf("%s, 99th percentile %s", inMillis(median), inMillis(fresh[len(fresh)*99/100])), median <= mostAlone)
	table.Add("the same question again", "", inMillis(load.Median(again)), true)
	return nil
}

// crowd has sixteen clients search at once, each as soon as it may.
func (s *searches) crowd(ctx context.Context, o options, table *bars.Table) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var times []time.Duration
	modes := map[string]int{}
	var all sync.WaitGroup
	for number := range clients {
		all.Go(func() {
			c := client(100 + number)
			for range o.searches / clients {
				begun := time.Now()
				a, err := s.ask(ctx, c, s.next())
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				times, modes[a.mode] = append(times, a.took), modes[a.mode]+1
				mu.Unlock()
				select {
				case <-time.After(time.Until(begun.Add(pace))):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	longest := slices.Max(times)
	table.Add(fmt.Sprintf("searches of %d clients at once, the longest of %d", clients, len(times)), inMillis(mostBehind),
		fmt.Sprintf("%s, median %s; %d by meaning, %d by words, since too many were before them", inMillis(longest), inMillis(load.Median(times)), modes["semantic"], modes["lexical"]), longest <= mostBehind)
	return nil
}

// visitors has clients come once, each from another address.
func (s *searches) visitors(ctx context.Context, o options, before instance.Memory, table *bars.Table) error {
	for number := range o.visitors {
		c := client(1000 + number)
		_, err := s.post(ctx, c, message("ping", "{}"))
		c.CloseIdleConnections()
		if err != nil {
			return err
		}
	}
	if err := s.product.Quiet(ctx); err != nil {
		return err
	}
	after, err := s.product.Memory()
	if err != nil {
		return err
	}
	grown := after.Own - before.Own
	table.Add(fmt.Sprintf("memory that %d clients leave behind which come once", o.visitors), inMegabytes(mostVisitors), inMegabytes(grown), grown <= mostVisitors)
	return nil
}

func inMillis(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1e3) }

func inMegabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/(1<<20)) }
