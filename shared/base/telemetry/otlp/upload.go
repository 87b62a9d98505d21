package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// uploadTimeout is the maximum time of one upload. Requests do not wait for an upload, except in a Lambda function,
// which waits up to a second before it is frozen (telemetry.Tracer.Flush).
const uploadTimeout = 5 * time.Second

// uploader sends spans by OTLP over HTTP. The exporter's own client would link
// gRPC into every function (docs/decisions/0019-spans-by-an-upload-of-our-own.md).
type uploader struct {
	endpoint string
	header   http.Header
	client   *http.Client
	log      *slog.Logger
}

var _ otlptrace.Client = (*uploader)(nil)

// Start implements otlptrace.Client. There is nothing to connect.
func (u *uploader) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (u *uploader) Stop(context.Context) error {
	u.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It logs a failure and returns nil: the SDK would print the error to the
// standard error. It does not retry, because spans may be lost, but must not delay the work that they describe.
func (u *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if err := u.upload(ctx, spans); err != nil {
		u.log.WarnContext(ctx, "spans were not sent", "error", err)
	}
	return nil
}

func (u *uploader) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData has the same encoding as ExportTraceServiceRequest. The package of the latter would link gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.endpoint, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the collector: %w", err)
	}
	r.Header = u.header.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := u.client.Do(r)
	if err != nil {
		// An address can contain a token: return the cause without it.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return fmt.Errorf("ask the collector: %w", err)
	}
	defer resp.Body.Close()
	const maxDrain = 64 << 10 // the body is read so that the connection can be used again
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %d", resp.StatusCode)
	}
	return nil
}
