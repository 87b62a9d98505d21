package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEachGatewayRequestIsOneLineWithoutSecrets(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		status  string
	}{
		"status":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "418"},
		"body alone": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }, "200"},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
		}, "404"},
		"upgraded": {func(http.ResponseWriter, *http.Request) {}, "101"},
		"broke off": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			panic(http.ErrAbortHandler)
		}, "200"},
		"path changed": {func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/other"
			w.WriteHeader(http.StatusNoContent)
		}, "204"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines bytes.Buffer
			h := logged(tc.handler, slog.New(slog.NewTextHandler(&lines, nil)))
			r := httptest.NewRequest(http.MethodGet, "http://shop.localhost/a%2Fb?key=secret", nil)
			r.Header.Set("Authorization", "Bearer secret")
			func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(httptest.NewRecorder(), r)
			}()
			line := lines.String()
			if strings.Count(line, "\n") != 1 || strings.Contains(line, "secret") {
				t.Errorf("log: %s", line)
			}
			if !strings.Contains(line, "host=shop.localhost method=GET path=/a%2Fb status="+tc.status+" ") {
				t.Errorf("log: %s", line)
			}
		})
	}
}

func TestControllersReachTheRealWriter(t *testing.T) {
	h := logged(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}), slog.New(slog.DiscardHandler))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if !w.Flushed {
		t.Error("not flushed")
	}
}
