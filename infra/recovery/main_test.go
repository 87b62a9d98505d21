package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestInvalidArgumentsAreRefused checks that each error is one line. It also checks that a moment with a time zone is
// converted to UTC and truncated to a second.
func TestInvalidArgumentsAreRefused(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "name the installation: STAGE="},
		{"-stage Production", "name the installation: STAGE="},
		{"-stage dev -at yesterday", "AT= is a moment such as"},
		{"-stage dev -at 2026-11-25T14:02:00Z -backup arn:x", "give AT= or BACKUP="},
		{"-stage dev -at latest", "name the restored table by AS="},
		{"-stage dev -as a", "AS= is the name of a table"},
		{"-stage dev -as a/b", "AS= is the name of a table"},
		{"-stage dev -revived perhaps", "REVIVED= is keep or revoke"},
		{"-stage dev -poll soon", "-poll is a duration"},
		{"-stage dev -stop -start", "take no other word"},
		{"-stage dev -stop -lift", "take no other word"},
		{"-stage dev -start -at latest", "take no other word"},
		{"-stage dev now", `nobody knows the word "now"`},
		{"-stage dev -nothing", "-nothing"},
	} {
		_, err := parseRequest(strings.Fields(c.args))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("parseRequest(%q) = %v, want one line with %q", c.args, err, c.want)
		}
	}
	r, err := parseRequest(strings.Fields("-stage dev -at 2026-11-25T15:02:00.9+01:00"))
	if want := time.Date(2026, 11, 25, 14, 2, 0, 0, time.UTC); err != nil || !r.at.Equal(want) ||
		r.at.Location() != time.UTC {
		t.Errorf("parseRequest(-at with a zone) = %s, %v, want %s in UTC", r.at, err, want)
	}
}

// TestOnlyYesConfirms checks that only the answer yes confirms: no other answer, and no input without an answer, does.
func TestOnlyYesConfirms(t *testing.T) {
	for input, confirmed := range map[string]bool{
		"yes\n": true, " yes \n": true, "yes": true, "": false, "y\n": false,
		"no\n": false, "\nyes\n": false,
	} {
		var out bytes.Buffer
		err := console{strings.NewReader(input), &out, &out}.confirm("? ")
		if (err == nil) != confirmed {
			t.Errorf("confirm(%q) = %v, want a confirmation: %v", input, err, confirmed)
		}
	}
}

// TestErrorsNameTheMakeTarget checks that makeTarget returns the make target that was called. Errors name it.
func TestErrorsNameTheMakeTarget(t *testing.T) {
	for args, want := range map[string]string{
		"-stage dev": "restore-aws", "-stage dev -stop -yes": "stop-aws",
		"-stage dev -start": "start-aws",
	} {
		if got := makeTarget(strings.Fields(args)); got != want {
			t.Errorf("makeTarget(%s) = %s, want %s", args, got, want)
		}
	}
}
