package bars_test

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/bars"
)

func TestFigureBeyondItsBarIsTold(t *testing.T) {
	var table bars.Table
	table.Add("memory", "200 MB", "150 MB", true)
	table.Add("rate", "", "7 a second", false)
	if err := table.Err(); err != nil {
		t.Errorf("figures within their bars: %v", err)
	}
	table.Add("start", "1 s", "2 s", false)
	if err := table.Err(); err == nil || !strings.Contains(err.Error(), "start: 2 s, and the bar is 1 s") || strings.Contains(err.Error(), "rate") {
		t.Errorf("a figure beyond its bar: %v", err)
	}
	const want = "| figure | bar | here |\n|---|---|---|\n| memory | 200 MB | 150 MB |\n| rate |  | 7 a second |\n| start | 1 s | 2 s |\n"
	if got := table.String(); got != want {
		t.Errorf("the table is %q, want %q", got, want)
	}
}
