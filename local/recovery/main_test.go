package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestWordsThatSayNothingAreRefused with one line each.
func TestWordsThatSayNothingAreRefused(t *testing.T) {
	for _, c := range []struct{ words, want string }{
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
		_, err := requestOf(strings.Fields(c.words))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is answered with %v, want a line with %q", c.words, err, c.want)
		}
	}
	r, err := requestOf(strings.Fields("-stage dev -at 2026-11-25T15:02:00.9+01:00"))
	if want := time.Date(2026, 11, 25, 14, 2, 0, 0, time.UTC); err != nil || !r.at.Equal(want) || r.at.Location() != time.UTC {
		t.Errorf("a moment is read as %s (%v)", r.at, err)
	}
}

// TestNothingIsDoneThatNobodyAgreesTo: a pipe that is closed is no answer.
func TestNothingIsDoneThatNobodyAgreesTo(t *testing.T) {
	for answer, agreed := range map[string]bool{"yes\n": true, " yes \n": true, "yes": true, "": false, "y\n": false, "no\n": false, "\nyes\n": false} {
		var out bytes.Buffer
		err := console{strings.NewReader(answer), &out, &out}.agree("? ")
		if (err == nil) != agreed {
			t.Errorf("%q is taken with %v", answer, err)
		}
	}
}

// TestErrorsBeginWithWhatWasTyped at make.
func TestErrorsBeginWithWhatWasTyped(t *testing.T) {
	for words, want := range map[string]string{"-stage dev": "restore-aws", "-stage dev -stop -yes": "stop-aws", "-stage dev -start": "start-aws"} {
		if got := typed(strings.Fields(words)); got != want {
			t.Errorf("%s is called %s", words, got)
		}
	}
}
