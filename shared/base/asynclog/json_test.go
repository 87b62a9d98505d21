package asynclog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/asynclog"
)

// checkSameAsSlog compares the handler's output for a record with slog's.
func checkSameAsSlog(t interface {
	Errorf(format string, args ...any)
	Helper()
}, r slog.Record,
) {
	t.Helper()
	var got, want bytes.Buffer
	err1 := asynclog.JSON(&got, slog.LevelDebug).Handle(context.Background(), r.Clone())
	err2 := slog.NewJSONHandler(&want, nil).Handle(context.Background(), r.Clone())
	if got.String() != want.String() || (err1 == nil) != (err2 == nil) {
		t.Errorf("JSON() writes\n%s with the error %v, want like slog\n%s and %v", got.String(), err1, want.String(), err2)
	}
}

var noon = time.Date(2026, 11, 24, 12, 0, 0, 123456000, time.UTC)

func TestPlainRecordsMatchSlog(t *testing.T) {
	for name, attrs := range map[string][]slog.Attr{
		"a request": {
			slog.String("requestId", "0f"), slog.Int("status", 200), slog.Bool("cut", false), slog.Float64("latency", 1.234),
			slog.Float64("upstreamLatency", 0), slog.String("path", "/a/b%20c?<>&'"),
		},
		"no attributes":               nil,
		"a quotation mark":            {slog.String("a", `b"c`)},
		"a backslash":                 {slog.String("a", `b\c`)},
		"a line end":                  {slog.String("a", "b\nc")},
		"other than ASCII":            {slog.String("a", "é\u2028\xff")},
		"a delete character":          {slog.String("a", "\x7f")},
		"a key to escape":             {slog.String("\"", "a")},
		"no key":                      {slog.Int("", 1)},
		"an empty attribute":          {{}},
		"a group":                     {slog.Group("g", slog.Int("a", 1)), slog.Int("b", 2)},
		"an error":                    {slog.Any("error", errors.New("broken"))},
		"a number below 1e-6":         {slog.Float64("f", 1e-7)},
		"1e21":                        {slog.Float64("f", 1e21)},
		"a number just below 1e21":    {slog.Float64("f", -9.99e20)},
		"1e-6":                        {slog.Float64("f", 1e-6)},
		"negative zero":               {slog.Float64("f", math.Copysign(0, -1))},
		"not a number":                {slog.Float64("f", math.NaN())},
		"infinity":                    {slog.Float64("f", math.Inf(1))},
		"a time":                      {slog.Time("t", noon)},
		"a duration":                  {slog.Duration("d", time.Second)},
		"an unsigned integer":         {slog.Uint64("u", math.MaxUint64)},
		"a slice after a plain value": {slog.Int("a", 1), slog.Any("b", []int{1})},
	} {
		t.Run(name, func(t *testing.T) {
			r := slog.NewRecord(noon, slog.LevelInfo, "request", 0)
			r.AddAttrs(attrs...)
			checkSameAsSlog(t, r)
		})
	}
	for _, at := range []time.Time{{}, noon.In(time.FixedZone("", 3600)), noon.AddDate(8000, 0, 0)} {
		checkSameAsSlog(t, slog.NewRecord(at, slog.LevelWarn+1, "request \"", 0))
		checkSameAsSlog(t, slog.NewRecord(at, slog.LevelWarn+1, "request", 0))
	}
}

func TestRandomRecordsMatchSlog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := slog.NewRecord(noon, slog.LevelInfo, rapid.String().Draw(t, "message"), 0)
		for range rapid.IntRange(0, 8).Draw(t, "attributes") {
			key := rapid.String().Draw(t, "key")
			r.AddAttrs(rapid.OneOf(
				rapid.Map(rapid.String(), func(s string) slog.Attr { return slog.String(key, s) }),
				rapid.Map(rapid.StringMatching(`[ -~]*`), func(s string) slog.Attr { return slog.String(key, s) }),
				rapid.Map(rapid.Int(), func(n int) slog.Attr { return slog.Int(key, n) }),
				rapid.Map(rapid.Float64(), func(f float64) slog.Attr { return slog.Float64(key, f) }),
				rapid.Map(rapid.Bool(), func(b bool) slog.Attr { return slog.Bool(key, b) }),
			).Draw(t, "attribute"))
		}
		checkSameAsSlog(t, r)
	})
}

// TestAttributesOfAllRecordsAreWritten checks that attributes and groups that a logger adds to all its records are
// written, and that the level still applies. For such a logger, WithAttrs returns slog's own handler.
func TestAttributesOfAllRecordsAreWritten(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(asynclog.JSON(&out, slog.LevelInfo)).With("a", 1).WithGroup("g")
	log.Debug("too low")
	log.Info("said", "b", 2)
	if text := out.String(); !bytes.HasSuffix(out.Bytes(), []byte(`"msg":"said","a":1,"g":{"b":2}}`+"\n")) ||
		bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Errorf("written = %s, want one line that ends with the attributes a, g and b", text)
	}
}

func BenchmarkLine(b *testing.B) {
	r := slog.NewRecord(noon, slog.LevelInfo, "request", 0)
	r.AddAttrs(slog.String("requestId", "3b2f5c1e-8c1c-4b0e-9f57-1f2f3c4d5e6f"),
		slog.String("deployment", "bench-main-0000000"), slog.String("operation", "readIssue"),
		slog.String("route", "/repos/{owner}/{repo}/issues/{number}"), slog.String("method", "GET"), slog.Int("status", 200),
		slog.Bool("cut", false),
		slog.Float64("latency", 1.234), slog.Float64("upstreamLatency", 0.987), slog.Bool("coldStart", false),
		slog.String("host", "bench-main-0000000.localhost:9000"), slog.String("path", "/repos/octo/hello/issues/42"))
	var out bytes.Buffer
	for name, h := range map[string]slog.Handler{
		"asynclog": asynclog.JSON(&out, slog.LevelInfo),
		"slog":     slog.NewJSONHandler(&out, nil),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				out.Reset()
				_ = h.Handle(b.Context(), r)
			}
		})
	}
}
