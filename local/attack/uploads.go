package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// upload is an attack on an upload's URL: what is written for it, one conversation
// after the other. {at} is the URL's path and query, {sign} its signature.
func upload(name, want string, look func(conversation, []arrival) string, conversations ...string) managed {
	return managed{name: name, want: want, do: func(ctx context.Context, p *product) (string, error) {
		at, err := p.issue(ctx)
		if err != nil {
			return "", err
		}
		host := strings.TrimPrefix(p.API, "http://")
		signature := at.Query().Get("signature")
		fill := strings.NewReplacer("{host}", host, "{at}", at.RequestURI(), "{path}", at.Path, "{query}", at.RawQuery, "{sign}", signature)
		var all []string
		for _, bytes := range conversations {
			c, err := talk(ctx, host, []string{fill.Replace(bytes)}, []string{http.MethodPut, http.MethodGet})
			if err != nil {
				return "", err
			}
			all = append(all, look(c, nil))
			for _, a := range c.answers {
				if strings.Contains(a.body, signature) {
					return "the answer has the signature", nil
				}
			}
		}
		log, err := os.ReadFile(filepath.Join(p.Data(), "logs", "gatewright.log"))
		if err != nil {
			return "", fmt.Errorf("read the log: %w", err)
		}
		if strings.Contains(string(log), signature) {
			return "the log has the signature", nil
		}
		return strings.Join(all, ", then "), nil
	}}
}

// issue asks for an upload's URL.
func (p *product) issue(ctx context.Context) (*url.URL, error) {
	var issued struct{ UploadURL string }
	err := p.Into(ctx, &issued, http.MethodPost, "/v1/deployments/sources", fmt.Sprintf(`{"accountName":%q,"projectName":"attacked","branchName":"uploads"}`, p.account))
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(issued.UploadURL)
	if err != nil {
		return nil, fmt.Errorf("read an upload's URL: %w", err)
	}
	return at, nil
}

func uploadCases() []managed {
	put := func(target, body string, more ...string) string {
		return "PUT " + target + " HTTP/1.1\r\nHost: {host}\r\n" + strings.Join(append(more, "", ""), "\r\n") + body
	}
	const length, next = "Content-Length: 3", "GET /openapi HTTP/1.1\r\nHost: {host}\r\n\r\n"
	return []managed{
		upload("an upload whose signature comes second", "403 problem", problem, put("{path}?signature=x&{query}", "abc", length)),
		upload("an upload to another id", "403 problem", problem, put("{path}0?{query}", "abc", length)),
		upload("an upload below its path", "404 problem", problem, put("{path}/?{query}", "abc", length)),
		upload("an upload with a wrong signature, which waits to be asked for its body", "403, no 100", waited,
			put("{path}?signature=x", "", length, "Expect: 100-continue")),
		upload("an upload of 1 GB that is announced and not sent", "413, closed", ended, put("{at}", "", "Content-Length: 1000000000", "Expect: 100-continue")),
		upload("a refused upload whose body is a request", "one answer", func(c conversation, _ []arrival) string {
			if len(c.answers) == 1 {
				return "one answer"
			}
			return fmt.Sprintf("%d answers", len(c.answers))
		}, put("{path}?signature=x", next, fmt.Sprintf("Content-Length: %d", len(next)-len("{host}")+len("127.0.0.1:00000")))),
		upload("an upload whose chunks are none, and again as it should be", "400, then 200", status,
			put("{at}", "zz\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), put("{at}", "abc", length)),
		upload("an upload twice", "200, then 409", status, put("{at}", "abc", length), put("{at}", "abd", length)),
	}
}
