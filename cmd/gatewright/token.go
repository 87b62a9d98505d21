package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// varToken is the environment variable with a tunnel's token (contract 2.8).
const varToken = "TUNNEL_TOKEN"

// maxTokenBytes is the maximum length of a token: a tunnel's token has about 200 bytes.
const maxTokenBytes = 4096

// tokenSource is the source of a tunnel's token: a file, or text if file is "".
type tokenSource struct{ file, text string }

// newTokenSource returns the source of the token from the flag and the environment. The token itself cannot be an
// argument, because all users of a machine can see a process's arguments.
func newTokenSource(file string, getenv func(string) string) (tokenSource, error) {
	text := getenv(varToken)
	switch {
	case file != "" && text != "":
		return tokenSource{}, fmt.Errorf("there are two tokens, one in %s and one in --token-file: leave one out", varToken)
	case file == "" && text == "":
		return tokenSource{},
			fmt.Errorf("there is no token: set %s to the tunnel's token, or name a file that holds it with --token-file. "+
				"`gatewright tunnel get TUNNEL_ID --reveal` shows it", varToken)
	}
	s := tokenSource{file: file, text: text}
	_, err := s.read()
	return s, err
}

func (s tokenSource) String() string {
	if s.file != "" {
		return s.file
	}
	return varToken
}

// tokenError means that a token could not be read, or is not a token.
type tokenError struct{ error }

// read returns the current token. Each error is a tokenError, and never contains the token.
func (s tokenSource) read() (string, error) {
	token, err := s.content()
	if err != nil {
		return "", tokenError{err}
	}
	return token, nil
}

func (s tokenSource) content() (string, error) {
	text := s.text
	if s.file != "" {
		f, err := os.Open(s.file)
		if err != nil {
			return "", fmt.Errorf("%s can't be read: %w", s.file, disk.Cause(err))
		}
		defer func() { _ = f.Close() }()
		content, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
		if err != nil {
			return "", fmt.Errorf("%s can't be read: %w", s.file, disk.Cause(err))
		}
		text = string(content)
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", fmt.Errorf("%s is empty: it has to hold the tunnel's token", s)
	case credential.Contains(text): // do not send a key to a relay
		return "", fmt.Errorf("%s holds a key of an account or a consumer, and it is sent nowhere: it has to hold the "+
			"tunnel's token", s)
	case len(text) > maxTokenBytes, strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s holds something else than a token: a token is one word, of letters, digits and few signs",
			s)
	}
	return text, nil
}

// isExposed reports whether other users can read the file with the token. Exposure is not an error, because secrets in
// containers are often mounted that way.
func (s tokenSource) isExposed() bool {
	if s.file == "" {
		return false
	}
	info, err := os.Stat(s.file)
	return err == nil && info.Mode().IsRegular() && disk.Exposed(info.Mode())
}
