package policy

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// provisioned returns an inbound policy with options, in the memory of a process.
func provisioned(t *testing.T, memory *Memory, policyType, options string) pipeline.Inbound {
	t.Helper()
	p, problems := Provision(project.Policy{
		Name: "p", Type: policyType,
		Handler: project.Component{Module: RuntimeModule, Options: json.RawMessage(options)},
	}, Setup{Memory: memory, Now: memory.now, Identity: project.Identity{AccountID: "a1", Deployment: "d1"}})
	if len(problems) > 0 {
		t.Fatalf("Provision(%s, %s) problems = %v, want none", policyType, options, problems)
	}
	return p.Inbound
}

// mac returns the HMAC of a text.
func mac(key, text string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return h.Sum(nil)
}

// message returns an exchange with a body, and with names and values of header fields in turn.
func message(ctx context.Context, body string, header ...string) *pipeline.Exchange {
	x := basicExchange(ctx)
	x.Body, x.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	for i := 0; i+1 < len(header); i += 2 {
		x.Header[header[i]] = append(x.Header[header[i]], header[i+1])
	}
	return x
}

const rawKey = "0123456789abcdef0123456789abcdef"

var standardOptions = `{"scheme":"standard","secrets":["whsec_` +
	base64.StdEncoding.EncodeToString([]byte("another key of 24 bytes.")) + `","whsec_` +
	base64.StdEncoding.EncodeToString([]byte(rawKey)) + `"],"rejectReplays":true}`

// standardFields returns the header of a message by Standard Webhooks, signed with rawKey.
func standardFields(id string, at time.Time, body string) []string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	signature := base64.StdEncoding.EncodeToString(mac(rawKey, id+"."+seconds+"."+body))
	return []string{"Webhook-Id", id, "Webhook-Timestamp", seconds, "Webhook-Signature", "v1a,x v1,AAAA v1," + signature}
}

// TestStandardWebhooks checks messages around the tolerance, with changed parts, and with hostile headers. All that are
// refused for their signature have the same text.
func TestStandardWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = `{"a": 1}`
		now := time.Now()
		fields := func(id string, at time.Time) []string { return standardFields(id, at, body) }
		with := func(index int, value string) []string {
			changed := fields("m", now)
			changed[index] = value
			return changed
		}
		texts := map[string]bool{}
		for name, test := range map[string]struct {
			body   string
			header []string
			status int
		}{
			"valid":                {body, fields("m", now), 0},
			"300 s old":            {body, fields("m", now.Add(-300*time.Second)), 0},
			"300 s ahead":          {body, fields("m", now.Add(300*time.Second)), 0},
			"301 s old":            {body, fields("m", now.Add(-301*time.Second)), 401},
			"10 minutes ahead":     {body, fields("m", now.Add(10*time.Minute)), 401},
			"another body":         {body + " ", fields("m", now), 401},
			"no body":              {"", fields("m", now), 401},
			"another id":           {body, with(1, "n"), 401},
			"an id with a dot":     {body, fields("m.1", now), 401},
			"a time with a sign":   {body, with(3, "+"+strconv.FormatInt(now.Unix(), 10)), 401},
			"a time with spaces":   {body, with(3, " "+strconv.FormatInt(now.Unix(), 10)), 401},
			"no time":              {body, with(3, ""), 401},
			"a huge time":          {body, with(3, strings.Repeat("9", 30)), 401},
			"no signature":         {body, with(5, ""), 401},
			"a cut signature":      {body, with(5, fields("m", now)[5][:30]), 401},
			"no Base64":            {body, with(5, "v1,\x00\r\n"), 401},
			"a megabyte":           {body, with(5, strings.Repeat("v1,AAAA ", 1<<17)), 401},
			"two signature fields": {body, append(fields("m", now), "Webhook-Signature", "v1,AAAA"), 401},
			"no headers":           {body, nil, 401},
		} {
			p := provisioned(t, NewMemory(time.Now), webhookType, standardOptions)
			response := p.Inbound(message(t.Context(), test.body, test.header...))
			if response != nil && response.StatusCode == http.StatusUnauthorized {
				text, _ := io.ReadAll(response.Body)
				texts[string(text)] = true
			}
			if got := statusOf(response); got != test.status {
				t.Errorf("Inbound(%s) status = %d, want %d", name, got, test.status)
			}
		}
		if len(texts) != 1 {
			t.Errorf("texts of refused messages = %d, want 1: %v", len(texts), texts)
		}
	})
}

// TestWebhookHeaders checks the schemes with a header of their own.
func TestWebhookHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = "exact\r\nbytes\x00"
		now := strconv.FormatInt(time.Now().Unix(), 10)
		old := strconv.FormatInt(time.Now().Unix()-600, 10)
		signed, timed := hex.EncodeToString(mac(rawKey, body)), hex.EncodeToString(mac(rawKey, now+"."+body))
		const hexOptions = `{"scheme":"hex","secrets":["` + rawKey + `"]}`
		const plainOptions = `{"scheme":"hex","secrets":["` + rawKey + `"],"header":"X-Sign","prefix":""}`
		const timedOptions = `{"scheme":"timestamped","secrets":["` + rawKey + `"],"header":"X-Sign"}`
		for _, test := range []struct {
			options, header, value string
			status                 int
		}{
			{hexOptions, "X-Hub-Signature-256", "sha256=" + signed, 0},
			{hexOptions, "X-Hub-Signature-256", "sha256=" + strings.ToUpper(signed), 0},
			{hexOptions, "X-Hub-Signature-256", signed, 401},
			{hexOptions, "X-Hub-Signature-256", "sha1=" + signed, 401},
			{hexOptions, "X-Hub-Signature-256", "sha256=" + signed[:62], 401},
			{hexOptions, "X-Hub-Signature-256", "sha256=", 401},
			{plainOptions, "X-Sign", signed, 0},
			{plainOptions, "X-Sign", strings.Repeat("0", 64), 401},
			{timedOptions, "X-Sign", "t=" + now + ",v1=" + timed, 0},
			{timedOptions, "X-Sign", "t=" + now + ", v0=x,v1=" + signed + ",v1=" + timed, 0},
			{timedOptions, "X-Sign", "t=" + now + ",v0=" + timed, 401},
			{timedOptions, "X-Sign", "v1=" + timed, 401},
			{timedOptions, "X-Sign", "v1=" + signed, 401},
			{timedOptions, "X-Sign", "t=" + old + ",t=" + now + ",v1=" + timed, 401},
			{timedOptions, "X-Sign", "t=" + old + ",v1=" + hex.EncodeToString(mac(rawKey, old+"."+body)), 401},
			{timedOptions, "X-Sign", "t=" + now + strings.Repeat(",v1="+signed, 30) + ",v1=" + timed, 401},
			{timedOptions, "X-Sign", "t=,v1=" + hex.EncodeToString(mac(rawKey, "."+body)), 401},
		} {
			p := provisioned(t, NewMemory(time.Now), webhookType, test.options)
			if got := statusOf(p.Inbound(message(t.Context(), body, test.header, test.value))); got != test.status {
				t.Errorf("Inbound(%s: %.100s) status = %d, want %d", test.header, test.value, got, test.status)
			}
		}
	})
}

// handlerOf is a handler that returns a status, and panics without one.
type handlerOf int

func (h handlerOf) Handle(*pipeline.Exchange) *http.Response {
	if h == 0 {
		panic("no status")
	}
	return &http.Response{StatusCode: int(h), Header: http.Header{}, Body: http.NoBody}
}

// run sends an exchange through a policy and a handler with a status, and returns the status of the response, 0 for a
// panic.
func run(x *pipeline.Exchange, p pipeline.Inbound, status int) (got int) {
	defer x.End()
	defer func() { _ = recover() }()
	return statusOf((&pipeline.Route{Inbound: []pipeline.Inbound{p}, Handler: handlerOf(status)}).Run(x))
}

// TestReplaysAreRejected checks that a message is accepted once until its time is over, also by a later deployment, and
// that a message that was not accepted can be repeated.
func TestReplaysAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		sent := time.Now().Add(100 * time.Second) // the sender's clock is ahead
		send := func(id string, status int) int {
			p := provisioned(t, memory, webhookType, standardOptions)
			return run(message(t.Context(), "{}", standardFields(id, sent, "{}")...), p, status)
		}
		for _, step := range []struct {
			id           string
			status, want int
		}{
			{"a", 200, 200},
			{"a", 200, 409},
			{"b", 500, 500},
			{"b", 0, 0},
			{"b", 204, 204},
			{"b", 200, 409},
		} {
			if got := send(step.id, step.status); got != step.want {
				t.Errorf("message %s with a handler of status %d: status = %d, want %d", step.id, step.status, got, step.want)
			}
		}
		time.Sleep(400 * time.Second)
		if got := send("a", 200); got != http.StatusConflict {
			t.Errorf("replay at the end of the tolerance: status = %d, want 409", got)
		}
		time.Sleep(time.Second)
		if got := send("a", 200); got != http.StatusUnauthorized {
			t.Errorf("replay after the tolerance: status = %d, want 401", got)
		}
	})
}

// TestFullMemoryOfReplaysRefuses checks that no message is forgotten for another one.
func TestFullMemoryOfReplaysRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		p := provisioned(t, memory, webhookType, standardOptions)
		p.(*webhook).replays.max = 1
		now := time.Now()
		first := func() *pipeline.Exchange { return message(t.Context(), "{}", standardFields("a", now, "{}")...) }
		if got := run(first(), p, 200); got != http.StatusOK {
			t.Errorf("first message: status = %d, want 200", got)
		}
		if got := run(message(t.Context(), "{}", standardFields("b", now, "{}")...), p, 200); got != 503 {
			t.Errorf("second message: status = %d, want 503", got)
		}
		if got := run(first(), p, 200); got != http.StatusConflict {
			t.Errorf("replay of the first message: status = %d, want 409", got)
		}
	})
}

// TestLargeWebhooksAreRefused checks bodies around the maximum size.
func TestLargeWebhooksAreRefused(t *testing.T) {
	t.Parallel()
	const options = `{"scheme":"hex","secrets":["` + rawKey + `"],"maxBodyBytes":4}`
	for body, want := range map[string]int{"1234": 0, "12345": http.StatusRequestEntityTooLarge} {
		for _, length := range []int64{-1, int64(len(body))} {
			x := message(t.Context(), body, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(rawKey, body)))
			x.ContentLength = length
			p := provisioned(t, NewMemory(time.Now), webhookType, options)
			if got := statusOf(p.Inbound(x)); got != want {
				t.Errorf("Inbound(%d bytes, length %d) status = %d, want %d", len(body), length, got, want)
			}
			if rest, _ := io.ReadAll(x.Body); want == 0 && string(rest) != body {
				t.Errorf("body for the upstream = %q, want %q", rest, body)
			}
		}
	}
}
