// Package bedrock asks models of Amazon Bedrock for what the search of the documentation needs (package docsearch): vectors of
// questions, by InvokeModel, and answers out of passages, by Converse. An installation has none unless its context names them.
//
// What it is not: a client for others. It believes nothing of what it is answered beyond its form; what a model says is
// checked by docsearch. No text of a question, an answer or the service's own errors leaves it but in what it returns. It is a
// package of its own, and no part of cloud, so that only the function that asks it links the SDK's client.
//
// Nothing of it was tried in AWS: its tests speak the wire format that is documented, to a server of their own
// (bedrocktest). Read this file first, then embed.go and converse.go. The rules are those of the "Amazon Bedrock API Reference"
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/).
package bedrock

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/installation"
)

const (
	// embedWithin bounds a question's vector: without it the search has one of its own within a tenth of a second.
	embedWithin = time.Second
	// writeWithin bounds an answer. API Gateway gives up after 29 seconds.
	writeWithin = 12 * time.Second
	// maxAnswerBytes bounds what is read of an answer: a vector is some 25 KB, a written answer 8 KB.
	maxAnswerBytes = 256 << 10
	// maxTextsBytes is for the vectors of many texts, which a command asks for.
	maxTextsBytes = 8 << 20
)

// Client asks models. It may be used by many at once.
type Client struct {
	model   string
	runtime func() *bedrockruntime.Client
	within  time.Duration
}

// Models gives the models that an installation's configuration names; none of it is made before the first question. getenv is
// os.Getenv outside tests.
func Models(p installation.Parts, getenv func(string) string) docsearch.Models {
	c := p.Config
	if c.DocsEmbeddings == "" && c.DocsAnswers == "" {
		return docsearch.Models{}
	}
	sdk, err := cloud.SDK(getenv)
	if err != nil {
		p.Log.Error("the documentation is searched without Bedrock", "error", err)
		return docsearch.Models{}
	}
	if c.BedrockEndpoint != "" {
		sdk.BaseEndpoint = &c.BedrockEndpoint
	}
	sdk.RetryMaxAttempts = 1 // what is here answers sooner than a second attempt
	sdk.HTTPClient = bounded{awshttp.NewBuildableClient(), maxAnswerBytes}
	runtime := sync.OnceValue(func() *bedrockruntime.Client { return bedrockruntime.NewFromConfig(sdk) })
	m := docsearch.Models{}
	if c.DocsEmbeddings != "" {
		m.EmbeddingModel, m.Embedder = c.DocsEmbeddings, &Client{c.DocsEmbeddings, runtime, embedWithin}
	}
	if c.DocsAnswers != "" {
		m.Writer = &Client{c.DocsAnswers, runtime, writeWithin}
	}
	return m
}

// New makes a client for a command that has time: what fails for a moment is tried again. endpoint is "" for AWS.
func New(sdk aws.Config, endpoint, model string) *Client {
	const attempts, within = 10, 5 * time.Minute
	if endpoint != "" {
		sdk.BaseEndpoint = &endpoint
	}
	sdk.Retryer = func() aws.Retryer { return retry.AddWithMaxAttempts(retry.NewStandard(), attempts) }
	sdk.HTTPClient = bounded{awshttp.NewBuildableClient(), maxTextsBytes}
	return &Client{model, sync.OnceValue(func() *bedrockruntime.Client { return bedrockruntime.NewFromConfig(sdk) }), within}
}

// bounded is a client whose answers have an end: the SDK reads them whole. Requests are copied for it, which are a few KB: the SDK closes
// a request's body when the head of its answer is there, and net/http, which may look then whether the body has an end, would take
// that for a failure and close the connection that the answer comes by (smithy-go 1.28.8).
type bounded struct {
	aws.HTTPClient

	bytes int64
}

// Do implements aws.HTTPClient.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	answer, err := b.HTTPClient.Do(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, b.bytes)
	}
	return answer, err
}

// word is what a service may call an error: nothing that could be a question's text is one.
var word = regexp.MustCompile(`^[A-Za-z]{1,64}$`)

// failed says of an error of the SDK's what it is about, without its text.
func failed(err error) *docsearch.ModelError {
	f := &docsearch.ModelError{Reason: docsearch.Unavailable}
	if api, is := errors.AsType[smithy.APIError](err); is && word.MatchString(api.ErrorCode()) {
		f.Code = api.ErrorCode()
	}
	status := 0
	if answered, is := errors.AsType[*awshttp.ResponseError](err); is {
		status = answered.HTTPStatusCode()
	}
	_, long := errors.AsType[*http.MaxBytesError](err)
	_, form := errors.AsType[*smithy.DeserializationError](err)
	_, broken := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), f.Code == "ModelTimeoutException", status == http.StatusRequestTimeout:
		f.Reason = docsearch.Slow
	case f.Code == "ServiceQuotaExceededException", status == http.StatusTooManyRequests:
		f.Reason = docsearch.Throttled
	case status >= http.StatusInternalServerError:
	case status >= http.StatusBadRequest:
		f.Reason = docsearch.Denied
	case broken, errors.Is(err, io.ErrUnexpectedEOF) && !long: // while it was read
	case long, form:
		f.Reason = docsearch.Unreadable
	}
	return f
}
