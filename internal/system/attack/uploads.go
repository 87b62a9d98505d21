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

// upload returns an attack on an upload URL, which writes each conversation on a separate connection. In a
// conversation, {host} is the host of the URL, {path} is its path, {query} is its query, and {at} is its path with the
// query. The attack also succeeds if a response or the product's log contains the signature of the URL.
func upload(
	name, want string, evaluate func(conversation, []arrival) string, conversations ...string,
) managementAttack {
	return managementAttack{name: name, want: want, do: func(ctx context.Context, p *product) (string, error) {
		uploadURL, err := p.newUploadURL(ctx)
		if err != nil {
			return "", err
		}
		host := strings.TrimPrefix(p.API, "http://")
		signature := uploadURL.Query().Get("signature")
		replacer := strings.NewReplacer("{host}", host, "{at}", uploadURL.RequestURI(), "{path}", uploadURL.Path,
			"{query}", uploadURL.RawQuery)
		var all []string
		for _, raw := range conversations {
			c, err := converse(ctx, host, []string{replacer.Replace(raw)}, []string{http.MethodPut, http.MethodGet})
			if err != nil {
				return "", err
			}
			all = append(all, evaluate(c, nil))
			for _, a := range c.responses {
				if strings.Contains(a.body, signature) {
					return "the response has the signature", nil
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

// newUploadURL requests an upload URL.
func (p *product) newUploadURL(ctx context.Context) (*url.URL, error) {
	var issued struct{ UploadURL string }
	err := p.RequestJSON(ctx, &issued, http.MethodPost, "/v1/deployments/sources",
		fmt.Sprintf(`{"accountName":%q,"projectName":"attacked","branchName":"uploads"}`, p.account))
	if err != nil {
		return nil, err
	}
	uploadURL, err := url.Parse(issued.UploadURL)
	if err != nil {
		return nil, fmt.Errorf("read an upload's URL: %w", err)
	}
	return uploadURL, nil
}

func uploadCases() []managementAttack {
	put := func(target, body string, fields ...string) string {
		return "PUT " + target + " HTTP/1.1\r\nHost: {host}\r\n" + strings.Join(append(fields, "", ""), "\r\n") + body
	}
	const length, next = "Content-Length: 3", "GET /openapi HTTP/1.1\r\nHost: {host}\r\n\r\n"
	return []managementAttack{
		upload("an upload whose signature comes second", "403 problem", problem,
			put("{path}?signature=x&{query}", "abc", length)),
		upload("an upload to another id", "403 problem", problem, put("{path}0?{query}", "abc", length)),
		upload("an upload below its path", "404 problem", problem, put("{path}/?{query}", "abc", length)),
		upload("an upload with a wrong signature, which waits to be asked for its body", "403, no 100", statusAndContinue,
			put("{path}?signature=x", "", length, "Expect: 100-continue")),
		upload("an upload of 1 GB that is announced and not sent", "413, closed", statusAndClose,
			put("{at}", "", "Content-Length: 1000000000", "Expect: 100-continue")),
		upload("a refused upload whose body is a request", "one answer", func(c conversation, _ []arrival) string {
			if len(c.responses) == 1 {
				return "one answer"
			}
			return fmt.Sprintf("%d answers", len(c.responses))
		}, put("{path}?signature=x", next,
			fmt.Sprintf("Content-Length: %d", len(next)-len("{host}")+len("127.0.0.1:00000")))),
		upload("an upload whose chunks are none, and again as it should be", "400, then 200", status,
			put("{at}", "zz\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), put("{at}", "abc", length)),
		upload("an upload twice", "200, then 409", status, put("{at}", "abc", length), put("{at}", "abd", length)),
	}
}
