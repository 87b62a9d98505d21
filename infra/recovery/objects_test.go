package main

import (
	"slices"
	"testing"
	"time"
)

// TestObjectsOfTheMomentAreRestored checks that exactly the objects that existed at the moment are restored: no object
// that was deleted before or created afterwards.
func TestObjectsOfTheMomentAreRestored(t *testing.T) {
	moment := time.Date(2026, 11, 25, 14, 2, 0, 0, time.UTC)
	// v returns a version with content, and m returns a delete marker. seconds is the time since the moment.
	v := func(id string, seconds int) version {
		return version{id, false, moment.Add(time.Duration(seconds) * time.Second)}
	}
	m := func(id string, seconds int) version {
		return version{id, true, moment.Add(time.Duration(seconds) * time.Second)}
	}
	for name, c := range map[string]struct {
		versions []version // newest first
		want     []string  // the ids of the delete markers
	}{
		"existing object":                             {[]version{v("a", -60)}, nil},
		"object deleted after the moment":             {[]version{m("m", 60), v("a", -60)}, []string{"m"}},
		"object deleted in the second of the moment":  {[]version{m("m", 0), v("a", -60)}, []string{"m"}},
		"object deleted in the second before":         {[]version{m("m", -1), v("a", -60)}, nil},
		"object written in the second of the moment":  {[]version{m("m", 60), v("a", 0)}, []string{"m"}},
		"object written and deleted after the moment": {[]version{m("m", 60), v("a", 30)}, nil},
		"object deleted twice": {
			[]version{m("n", 90), m("m", 60), v("a", -60)}, []string{"n", "m"},
		},
		"object written again and deleted again": {
			[]version{m("n", 90), v("b", 60), m("m", 30), v("a", -60)}, []string{"n"},
		},
		"object deleted before and written after the moment": {
			[]version{m("n", 90), v("b", 60), m("m", -30), v("a", -60)}, nil,
		},
		"only a delete marker":                       {[]version{m("m", 60)}, nil},
		"object written again after the moment":      {[]version{v("b", 90), m("m", 60), v("a", -60)}, nil},
		"unknown object":                             {nil, nil},
		"delete markers before and after the moment": {[]version{m("n", 60), m("m", -60), v("a", -90)}, nil},
		"object deleted and written before the moment": {
			[]version{m("n", 60), v("b", -10), m("m", -30), v("a", -60)}, []string{"n"},
		},
	} {
		if got := markersToRemove(c.versions, moment, moment); !slices.Equal(got, c.want) {
			t.Errorf("%s: markersToRemove() = %v, want %v", name, got, c.want)
		}
	}
	// For the latest moment, DynamoDB only guarantees that it is within the last five minutes.
	for name, c := range map[string]struct {
		versions []version
		want     []string
	}{
		"object deleted four minutes ago": {[]version{m("m", -240), v("a", -600)}, []string{"m"}},
		"object deleted six minutes ago":  {[]version{m("m", -360), v("a", -600)}, nil},
	} {
		if got := markersToRemove(c.versions, moment.Add(-latestLag), moment); !slices.Equal(got, c.want) {
			t.Errorf("%s, latest moment: markersToRemove() = %v, want %v", name, got, c.want)
		}
	}
}
