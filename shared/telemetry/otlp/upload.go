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

// uploadTime bounds one upload. Nobody waits for spans but a Lambda that is
// about to be frozen, and that one not for long.
const uploadTime = 5 * time.Second

// uploader sends spans by OTLP over HTTP. The exporter's own client would bring
// gRPC into every function (docs/decisions/0019-spans-by-an-upload-of-our-own.md).
type uploader struct {
	to     string
	header http.Header
	client *http.Client
	log    *slog.Logger
}

var _ otlptrace.Client = (*uploader)(nil)

// Start implements otlptrace.Client; there is nothing to connect.
func (u *uploader) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (u *uploader) Stop(context.Context) error {
	u.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. Its failure is logged and not
// answered: the SDK would print it to the standard error. Spans are not sent a
// second time, since what is watched matters more than what was seen of it.
func (u *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if err := u.upload(ctx, spans); err != nil {
		u.log.WarnContext(ctx, "spans were not sent", "error", err)
	}
	return nil
}

func (u *uploader) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// The same bytes as an ExportTraceServiceRequest, whose package has gRPC in it.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the collector: %w", err)
	}
	r.Header = u.header.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := u.client.Do(r)
	if err != nil {
		// An address may hold a token: the cause without it.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return fmt.Errorf("ask the collector: %w", err)
	}
	defer answer.Body.Close()
	const enough = 64 << 10 // to use the connection again
	_, _ = io.CopyN(io.Discard, answer.Body, enough)
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %d", answer.StatusCode)
	}
	return nil
}
