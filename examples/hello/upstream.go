// Command upstream is the upstream to which this project's routes forward requests. It responds with a greeting on
// http://127.0.0.1:9002 until it is stopped.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

const address = "127.0.0.1:9002"

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"ok": true})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("name")
		if name == "" {
			name = "you"
		}
		writeJSON(w, map[string]any{"hello": name, "path": r.URL.Path})
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}
