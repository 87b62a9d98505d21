// Package bedrock calls models of Amazon Bedrock for the search of the documentation (package docsearch): InvokeModel
// returns vectors of questions, and Converse writes an answer from passages. An installation uses no models unless its
// CDK context names them.
//
// The package is not a client for other purposes. It only checks the form of the models' responses; docsearch checks
// their content. It logs no text of a question, of a response or of a model's error. It is not part of package cloud,
// so that only the function that needs it links the SDK's client.
//
// The package has not been tried in AWS: its tests use a server with the documented wire format (bedrocktest). Read
// this file first, then embed.go and converse.go. The rules are in the "Amazon Bedrock API Reference"
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

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

const (
	// embedTimeout bounds the time for a question's vector. If the model
	// fails, the search computes a vector itself, within a tenth of a second.
	embedTimeout = time.Second
	// writeTimeout bounds the time for an answer. API Gateway ends a request after 29 seconds.
	writeTimeout = 12 * time.Second
	// maxResponseBytes bounds the response of a model: a vector has some 25 KB, and a written answer has 8 KB.
	maxResponseBytes = 256 << 10
	// maxBatchResponseBytes bounds a response with the vectors of many texts, which a command requests.
	maxBatchResponseBytes = 8 << 20
)

// Client calls a model. It is safe for concurrent use.
type Client struct {
	model string
	// client returns the client of the SDK. The first call creates it.
	client  func() *bedrockruntime.Client
	timeout time.Duration
}

// Models returns the models that an installation's configuration names. The client of the SDK is created at the first
// question. If the AWS settings are incomplete, Models logs that and returns no models. getenv is os.Getenv outside
// tests.
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
	sdk.RetryMaxAttempts = 1 // the search's own vector takes less time than a second attempt
	sdk.HTTPClient = limitedClient{awshttp.NewBuildableClient(), maxResponseBytes}
	client := sync.OnceValue(func() *bedrockruntime.Client { return bedrockruntime.NewFromConfig(sdk) })
	m := docsearch.Models{}
	if c.DocsEmbeddings != "" {
		m.EmbeddingModel, m.Embedder = c.DocsEmbeddings, &Client{c.DocsEmbeddings, client, embedTimeout}
	}
	if c.DocsAnswers != "" {
		m.Writer = &Client{c.DocsAnswers, client, writeTimeout}
	}
	return m
}

// New returns a client for a command, which has more time than a
// request: the client retries temporary errors. endpoint is "" for AWS.
func New(sdk aws.Config, endpoint, model string) *Client {
	const attempts, timeout = 10, 5 * time.Minute
	if endpoint != "" {
		sdk.BaseEndpoint = &endpoint
	}
	sdk.Retryer = func() aws.Retryer { return retry.AddWithMaxAttempts(retry.NewStandard(), attempts) }
	sdk.HTTPClient = limitedClient{awshttp.NewBuildableClient(), maxBatchResponseBytes}
	return &Client{model, sync.OnceValue(func() *bedrockruntime.Client {
		return bedrockruntime.NewFromConfig(sdk)
	}), timeout}
}

// limitedClient is an HTTP client that limits the size of responses, because the SDK reads a response as a whole. It
// also copies request bodies, which have a few KB. The SDK closes a request's body when the head of the response
// arrives. net/http may read the end of the body only after that. It would treat the closed body as an error, and close
// the connection before the response is read (smithy-go 1.28.8).
type limitedClient struct {
	aws.HTTPClient

	bytes int64
}

// Do implements aws.HTTPClient.
func (l limitedClient) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := l.HTTPClient.Do(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, l.bytes)
	}
	return resp, err
}

// errorCode matches the error codes that are logged. It does not match a text with spaces, such as a question.
var errorCode = regexp.MustCompile(`^[A-Za-z]{1,64}$`)

// modelError returns the reason of an SDK error, without the error's text.
func modelError(err error) *docsearch.ModelError {
	f := &docsearch.ModelError{Reason: docsearch.Unavailable}
	if api, ok := errors.AsType[smithy.APIError](err); ok && errorCode.MatchString(api.ErrorCode()) {
		f.Code = api.ErrorCode()
	}
	status := 0
	if respErr, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status = respErr.HTTPStatusCode()
	}
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	_, malformed := errors.AsType[*smithy.DeserializationError](err)
	_, netFailure := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), f.Code == "ModelTimeoutException", status == http.StatusRequestTimeout:
		f.Reason = docsearch.Slow
	case f.Code == "ServiceQuotaExceededException", status == http.StatusTooManyRequests:
		f.Reason = docsearch.Throttled
	case status >= http.StatusInternalServerError:
	case status >= http.StatusBadRequest:
		f.Reason = docsearch.Denied
	case netFailure, errors.Is(err, io.ErrUnexpectedEOF) && !tooLarge: // stays Unavailable
	case tooLarge, malformed:
		f.Reason = docsearch.Unreadable
	}
	return f
}
