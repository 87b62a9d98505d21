package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/disk"
)

// varToken is the variable with a tunnel's token (contract 2.8).
const varToken = "TUNNEL_TOKEN"

// maxTokenBytes bounds a token: ours have some 200 bytes, and a file that is another one is
// not read to its end.
const maxTokenBytes = 4096

// tokenSource is where a tunnel's token comes from: a file, or for "" the text.
type tokenSource struct{ file, text string }

// tokenFrom takes the token's source from what was typed and from the environment. It is
// never a word of the command line, which all users of a machine can see.
func tokenFrom(file string, getenv func(string) string) (tokenSource, error) {
	text := getenv(varToken)
	switch {
	case file != "" && text != "":
		return tokenSource{}, fmt.Errorf("there are two tokens, one in %s and one in --token-file: leave one out", varToken)
	case file == "" && text == "":
		return tokenSource{}, fmt.Errorf("there is no token: set %s to the tunnel's token, or name a file that holds it with --token-file. "+
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

// tokenError says what is wrong with the token's source, for whoever keeps that.
type tokenError struct{ error }

// read gives the token as it is now. Its errors are tokenErrors, and never hold it.
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
	case credential.Within(text): // which the relay's address, that of anybody, would learn
		return "", fmt.Errorf("%s holds a key of an account or a consumer, and it is sent nowhere: it has to hold the tunnel's token", s)
	case len(text) > maxTokenBytes, strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s holds something else than a token: a token is one word, of letters, digits and few signs", s)
	}
	return text, nil
}

// exposed reports whether others than its owner may read the file with the token. It is no
// error: what mounts secrets into containers often does it so.
func (s tokenSource) exposed() bool {
	if s.file == "" {
		return false
	}
	info, err := os.Stat(s.file)
	return err == nil && info.Mode().IsRegular() && disk.Exposed(info.Mode())
}
