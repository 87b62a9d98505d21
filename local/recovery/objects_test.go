package main

import (
	"slices"
	"testing"
	"time"
)

// TestWhatWasThereAtTheMomentComesBack, and nothing that was gone by then or came later.
func TestWhatWasThereAtTheMomentComesBack(t *testing.T) {
	moment := time.Date(2026, 11, 25, 14, 2, 0, 0, time.UTC)
	v := func(id string, seconds int) version {
		return version{id, false, moment.Add(time.Duration(seconds) * time.Second)}
	}
	m := func(id string, seconds int) version {
		return version{id, true, moment.Add(time.Duration(seconds) * time.Second)}
	}
	for name, c := range map[string]struct {
		versions []version // the newest first
		want     []string
	}{
		"it is there":                     {[]version{v("a", -60)}, nil},
		"it was deleted since":            {[]version{m("m", 60), v("a", -60)}, []string{"m"}},
		"deleted in the very second":      {[]version{m("m", 0), v("a", -60)}, []string{"m"}},
		"deleted the second before":       {[]version{m("m", -1), v("a", -60)}, nil},
		"put in the very second":          {[]version{m("m", 60), v("a", 0)}, []string{"m"}},
		"it came later, and is gone":      {[]version{m("m", 60), v("a", 30)}, nil},
		"deleted twice":                   {[]version{m("n", 90), m("m", 60), v("a", -60)}, []string{"n", "m"}},
		"put again, and deleted again":    {[]version{m("n", 90), v("b", 60), m("m", 30), v("a", -60)}, []string{"n"}},
		"it was gone, and came back":      {[]version{m("n", 90), v("b", 60), m("m", -30), v("a", -60)}, nil},
		"only a marker is left of it":     {[]version{m("m", 60)}, nil},
		"it was put again and is there":   {[]version{v("b", 90), m("m", 60), v("a", -60)}, nil},
		"nobody has ever heard of it":     {nil, nil},
		"markers before and after":        {[]version{m("n", 60), m("m", -60), v("a", -90)}, nil},
		"deleted long before, put before": {[]version{m("n", 60), v("b", -10), m("m", -30), v("a", -60)}, []string{"n"}},
	} {
		if got := undo(c.versions, moment, moment); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are undone, want %v", name, got, c.want)
		}
	}
	// Of the latest moment DynamoDB tells no more than that it is of the last five minutes.
	for name, c := range map[string]struct {
		versions []version
		want     []string
	}{
		"deleted four minutes ago": {[]version{m("m", -240), v("a", -600)}, []string{"m"}},
		"deleted six minutes ago":  {[]version{m("m", -360), v("a", -600)}, nil},
	} {
		if got := undo(c.versions, moment.Add(-latestLag), moment); !slices.Equal(got, c.want) {
			t.Errorf("of the latest moment, %s: %v are undone, want %v", name, got, c.want)
		}
	}
}
