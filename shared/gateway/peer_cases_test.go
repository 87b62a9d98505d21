package gateway_test

import "strings"

// fine is the shortest answer.
var fine = []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}

func asked(method string, more ...string) string {
	return method + " /x HTTP/1.1\r\n{case}" + strings.Join(append(more, "", ""), "\r\n")
}

func one(parts ...string) []string { return parts }

func exchanges() []exchange {
	var out []exchange
	add := func(e exchange) { out = append(out, e) }
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
		if method == "HEAD" {
			add(exchange{name: "HEAD, an answer with a length", request: one(asked("HEAD")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")})
			add(exchange{name: "HEAD, an answer in chunks", request: one(asked("HEAD")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")})
			add(exchange{name: "HEAD, an answer with neither", request: one(asked("HEAD")), answer: one("HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n")})
			add(exchange{name: "HEAD, answered with a body", request: one(asked("HEAD")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), then: closes})
			continue
		}
		add(exchange{name: method, request: one(asked(method)), answer: fine})
		add(exchange{name: method + " with a body", request: one(asked(method, "Content-Length: 4") + "body"), answer: fine})
		add(exchange{name: method + " with an empty body", request: one(asked(method, "Content-Length: 0")), answer: fine})
		add(exchange{name: method + " in chunks", request: one(asked(method, "Transfer-Encoding: chunked")+"2\r\nbo\r\n", "2\r\ndy\r\n", "0\r\n\r\n"), answer: fine})
		add(exchange{name: method + " in no chunks", request: one(asked(method, "Transfer-Encoding: chunked") + "0\r\n\r\n"), answer: fine})
	}
	// Requests.
	add(exchange{name: "chunks with extensions", request: one(asked("POST", "Transfer-Encoding: chunked") + "4;a=b\r\nbody\r\n0;c\r\n\r\n"), answer: fine})
	add(exchange{name: "trailers of a request", request: one(asked("POST", "Transfer-Encoding: chunked", "Trailer: X-Sum") + "4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n"), answer: fine})
	add(exchange{name: "trailers that are not announced", request: one(asked("POST", "Transfer-Encoding: chunked") + "4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n"), answer: fine})
	add(exchange{name: "trailers asked for", request: one(asked("GET", "TE: trailers", "Connection: TE")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")})
	add(exchange{name: "a body that is slow", request: one(asked("POST", "Content-Length: 4")+"b", "o", "d", "y"), answer: fine})
	add(exchange{name: "a body that breaks off", request: one(asked("POST", "Content-Length: 9") + "body"), answer: fine, half: true})
	add(exchange{name: "chunks that break off", request: one(asked("POST", "Transfer-Encoding: chunked") + "4\r\nbody\r\n"), answer: fine, half: true})
	add(exchange{name: "odd chunks", request: one(asked("POST", "Transfer-Encoding: chunked") + "zz\r\n"), answer: fine})
	add(exchange{name: "a large body", request: one(asked("POST", "Content-Length: 8388608") + "{mib}{mib}{mib}{mib}{mib}{mib}{mib}{mib}"), answer: fine})
	add(exchange{name: "a head in parts", request: one("GET /x HTT", "P/1.1\r\n{case}", "X-A: 1\r\n", "\r\n"), answer: fine})
	add(exchange{name: "100-continue", request: one(asked("POST", "Expect: 100-continue", "Content-Length: 4"), "body"), answer: fine})
	add(exchange{name: "100-continue, refused at once", request: one(asked("POST", "Expect: 100-continue", "Content-Length: 4")), answer: one("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), early: true, then: closes})
	add(exchange{name: "another expectation", request: one(asked("GET", "Expect: wonders")), answer: fine})
	add(exchange{name: "HTTP/1.0", request: one("GET /x HTTP/1.0\r\n{case}\r\n"), answer: fine})
	add(exchange{name: "HTTP/1.0 kept alive", request: one("GET /x HTTP/1.0\r\n{case}Connection: keep-alive\r\n\r\n"), answer: fine})
	add(exchange{name: "HTTP/1.0, an answer in chunks", request: one("GET /x HTTP/1.0\r\n{case}\r\n"), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")})
	add(exchange{name: "HTTP/1.0, an answer with a hint", request: one("GET /x HTTP/1.0\r\n{case}\r\n"), answer: one("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "closing", request: one(asked("GET", "Connection: close")), answer: fine})
	add(exchange{name: "two in a row", request: one(asked("GET") + asked("GET")), answer: fine})
	add(exchange{name: "two in a row with bodies", request: one(asked("POST", "Content-Length: 4") + "one1" + asked("POST", "Content-Length: 4") + "two2"), answer: fine})
	add(exchange{name: "one after the other", request: one(asked("GET"), asked("GET")), answer: fine})
	add(exchange{name: "half closed", request: one(asked("GET")), answer: fine, half: true})
	add(exchange{name: "a field twice", request: one(asked("GET", "X-A: 1", "X-A: 2")), answer: fine})
	add(exchange{name: "a field of two values", request: one(asked("GET", "X-A: 1, 2")), answer: fine})
	add(exchange{name: "an empty field", request: one(asked("GET", "X-A:")), answer: fine})
	add(exchange{name: "a field with space around", request: one(asked("GET", "X-A:  \t a  b \t ")), answer: fine})
	add(exchange{name: "a field with bytes beyond ASCII", request: one(asked("GET", "X-A: \xe4\xf6 ä")), answer: fine})
	add(exchange{name: "a field with a tab", request: one(asked("GET", "X-A: a\tb")), answer: fine})
	add(exchange{name: "a long field", request: one(asked("GET", "X-A: "+strings.Repeat("a", 6000))), answer: fine})
	add(exchange{name: "a folded field", request: one(asked("GET", "X-A: a", " b")), answer: fine})
	add(exchange{name: "cookies", request: one(asked("GET", "Cookie: a=1", "Cookie: b=2")), answer: fine})
	add(exchange{name: "fields of the connection", request: one(asked("GET", "Connection: keep-alive, x-listed", "X-Listed: 1", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive")), answer: fine})
	add(exchange{name: "a range", request: one(asked("GET", "Range: bytes=0-1", "If-Range: \"a\"")), answer: one("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "conditions", request: one(asked("GET", "If-None-Match: \"a\"", "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT")), answer: one("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")})
	add(exchange{name: "encodings", request: one(asked("GET", "Accept-Encoding: gzip, br")), answer: one("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "no encodings", request: one(asked("GET", "Accept-Encoding:")), answer: fine})
	add(exchange{name: "an agent", request: one(asked("GET", "User-Agent: me/1")), answer: fine})
	add(exchange{name: "a query", request: one("GET /x?a=%2F&b=+&c=%zz&;d HTTP/1.1\r\n{case}\r\n"), answer: fine})
	add(exchange{name: "an empty query", request: one("GET /x? HTTP/1.1\r\n{case}\r\n"), answer: fine})
	add(exchange{name: "a target with its host", request: one("GET http://shop.test/x HTTP/1.1\r\n{case}\r\n"), answer: fine})
	add(exchange{name: "escapes in the path", request: one("GET /%61%2D%7e%C3%A4 HTTP/1.1\r\n{case}\r\n"), answer: fine})
	add(exchange{name: "max-forwards", request: one(asked("OPTIONS", "Max-Forwards: 3")), answer: fine})
	// Answers.
	for _, status := range []string{"201 Created", "202 Accepted", "301 Moved Permanently", "404 Not Found", "418 Odd", "429 Too Many Requests", "500 Oops", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout", "599 Odd"} {
		add(exchange{name: "status " + status, request: one(asked("GET")), answer: one("HTTP/1.1 " + status + "\r\nContent-Length: 2\r\nRetry-After: 7\r\nLocation: /y\r\n\r\nok")})
	}
	add(exchange{name: "no reason", request: one(asked("GET")), answer: one("HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "no reason and no space", request: one(asked("GET")), answer: one("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok")})
	for _, status := range []string{"204 No Content", "304 Not Modified", "205 Reset Content"} {
		add(exchange{name: status, request: one(asked("GET")), answer: one("HTTP/1.1 " + status + "\r\nX-A: 1\r\n\r\n"), then: closes})
		add(exchange{name: status + " with a length", request: one(asked("GET")), answer: one("HTTP/1.1 " + status + "\r\nContent-Length: 2\r\n\r\n"), then: closes})
		add(exchange{name: status + " with a body", request: one(asked("GET")), answer: one("HTTP/1.1 " + status + "\r\nContent-Length: 2\r\n\r\nok"), then: closes})
		add(exchange{name: status + " in chunks", request: one(asked("GET")), answer: one("HTTP/1.1 " + status + "\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), then: closes})
	}
	add(exchange{name: "a hint", request: one(asked("GET")), answer: one("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n", fine[0])})
	add(exchange{name: "three hints", request: one(asked("GET")), answer: one("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n", fine[0])})
	add(exchange{name: "a continue that nobody asked for", request: one(asked("GET")), answer: one("HTTP/1.1 100 Continue\r\n\r\n" + fine[0])})
	add(exchange{name: "many hints", request: one(asked("GET")), answer: one(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 12) + fine[0])})
	add(exchange{name: "a switch that nobody asked for", request: one(asked("GET")), answer: one("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), then: closes})
	add(exchange{name: "an answer in chunks", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "2\r\nok\r\n", "0\r\n\r\n")})
	add(exchange{name: "an answer of chunks with extensions", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0;c\r\n\r\n")})
	add(exchange{name: "an empty answer in chunks", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")})
	add(exchange{name: "an empty answer", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")})
	add(exchange{name: "an answer until the end", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\n\r\nok", "ok"), then: closes})
	add(exchange{name: "an empty answer until the end", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\n\r\n"), then: closes})
	add(exchange{name: "an answer until a reset", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\n\r\nok", "ok"), then: resets})
	add(exchange{name: "an answer of HTTP/1.0", request: one(asked("GET")), answer: one("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"), then: closes})
	add(exchange{name: "an answer of HTTP/1.0 until the end", request: one(asked("GET")), answer: one("HTTP/1.0 200 OK\r\n\r\nok"), then: closes})
	add(exchange{name: "trailers", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")})
	add(exchange{name: "trailers that nobody has announced", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")})
	add(exchange{name: "a trailer that does not come", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\n\r\n")})
	add(exchange{name: "trailers that may not be", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length, X-Sum\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 7\r\nX-Sum: 7\r\n\r\n")})
	add(exchange{name: "an answer that is too short", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), then: closes})
	add(exchange{name: "an answer that is too short by all", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), then: closes})
	add(exchange{name: "an answer that is reset", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "ok"), then: resets})
	add(exchange{name: "an answer that is too long", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more"), then: closes})
	add(exchange{name: "chunks that end early", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"), then: closes})
	add(exchange{name: "chunks that are none", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n"), then: closes})
	add(exchange{name: "two lengths that differ", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"), then: closes})
	add(exchange{name: "two lengths that are alike", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"), then: closes})
	add(exchange{name: "a length and chunks", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nodd\r\n0\r\n\r\n"), then: closes})
	add(exchange{name: "a length that is none", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok"), then: closes})
	add(exchange{name: "an encoding that nobody knows", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), then: closes})
	add(exchange{name: "no answer", request: one(asked("GET")), then: closes})
	add(exchange{name: "no answer to a POST", request: one(asked("POST", "Content-Length: 4") + "body"), then: closes})
	add(exchange{name: "a reset for an answer", request: one(asked("POST", "Content-Length: 4") + "body"), then: resets})
	add(exchange{name: "half a head", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nX-A: 1\r\n"), then: closes})
	add(exchange{name: "no HTTP", request: one(asked("GET")), answer: one("SSH-2.0-OpenSSH\r\n"), then: closes})
	add(exchange{name: "a field without a colon", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nodd\r\nContent-Length: 2\r\n\r\nok"), then: closes})
	add(exchange{name: "a field with a space in its name", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nX A: 1\r\nContent-Length: 2\r\n\r\nok"), then: closes})
	add(exchange{name: "an empty field of an answer", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nX-A:\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "a field of an answer twice", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; Path=/\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "a folded field of an answer", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 2\r\n\r\nok"), then: closes})
	add(exchange{name: "an answer with bytes beyond ASCII", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nX-A: \xe4\xf6 ä\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "an answer with a control character", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 2\r\n\r\nok"), then: closes})
	add(exchange{name: "a long field of an answer", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 3000) + "\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "an answer without a type", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")})
	add(exchange{name: "an answer with its date and server", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: odd\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "an answer's fields of the connection", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nConnection: keep-alive, x-listed\r\nX-Listed: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok")})
	add(exchange{name: "an answer that closes", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"), then: closes})
	add(exchange{name: "an answer with authentication", request: one(asked("GET", "Authorization: Basic YTpi")), answer: one("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: Bearer\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")})
	add(exchange{name: "a large answer", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n{mib}{mib}{mib}{mib}", "{mib}{mib}{mib}{mib}")})
	add(exchange{name: "events", request: one(asked("GET", "Accept: text/event-stream")), answer: one("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n", "9\r\ndata: a\n\n\r\n", "9\r\ndata: b\n\n\r\n", "0\r\n\r\n")})
	// Both.
	add(exchange{name: "an answer before the body", request: one(asked("POST", "Content-Length: 4"), "body"), answer: one("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno"), early: true})
	add(exchange{name: "an answer before the body, and the end", request: one(asked("POST", "Content-Length: 4"), "body"), answer: one("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"), early: true, then: closes})
	add(exchange{name: "an answer before a large body, and the end", request: one(asked("POST", "Content-Length: 8388608")+"{mib}{mib}{mib}{mib}", "{mib}{mib}{mib}{mib}"), answer: one("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"), early: true, then: closes})
	add(exchange{name: "a client that goes", request: one(asked("GET")), answer: one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"), then: waits, gone: true})
	add(exchange{name: "a switch", request: one(asked("GET", "Connection: Upgrade", "Upgrade: odd")), answer: one("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\nX-A: 1\r\n\r\n"), then: echoes})
	add(exchange{name: "a WebSocket", request: one(asked("GET", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: a, b")), answer: one("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: b\r\n\r\n"), then: echoes})
	add(exchange{name: "a switch that is refused", request: one(asked("GET", "Connection: Upgrade", "Upgrade: websocket")), answer: one("HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: other\r\nContent-Length: 2\r\n\r\nno")})
	add(exchange{name: "a switch that is left out", request: one(asked("GET", "Connection: Upgrade", "Upgrade: odd")), answer: fine})
	add(exchange{name: "a switch with a body", request: one(asked("POST", "Connection: Upgrade", "Upgrade: odd", "Content-Length: 4") + "body"), answer: fine})
	add(exchange{name: "upgrade without its connection", request: one(asked("GET", "Upgrade: websocket")), answer: fine})
	add(exchange{name: "h2c", request: one(asked("GET", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")), answer: fine})
	return out
}
