package gateway_test

import (
	"slices"
	"strings"
)

// okResponse is a short response in one part.
var okResponse = []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}

// requestText returns the head of a request for /x with header fields.
func requestText(method string, fields ...string) string {
	return method + " /x HTTP/1.1\r\n{case}" + strings.Join(append(fields, "", ""), "\r\n")
}

// inParts returns a message in parts, which are sent separately.
func inParts(parts ...string) []string { return parts }

// getExchange returns an exchange of a GET request with the parts of a response.
func getExchange(name string, response ...string) exchange {
	return exchange{name: name, request: inParts(requestText("GET")), response: response}
}

// okExchange returns an exchange of the parts of a request with okResponse.
func okExchange(name string, request ...string) exchange {
	return exchange{name: name, request: request, response: okResponse}
}

// then returns the exchange with another value of afterwards.
func (e exchange) then(afterwards string) exchange {
	e.afterwards = afterwards
	return e
}

// exchanges returns all exchanges of the tests that compare ways to a service.
func exchanges() []exchange {
	return slices.Concat(exchangesOfMethods(), requestExchanges(),
		exchangesOfStatuses(), framedExchanges(), brokenExchanges(), fieldExchanges(), crossingExchanges(), switchExchanges())
}

// exchangesOfMethods returns exchanges with each method, with and without a body.
func exchangesOfMethods() []exchange {
	var out []exchange
	add := func(e exchange) { out = append(out, e) }
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
		if method == "HEAD" {
			add(exchange{
				name: "HEAD, a response with a length", request: inParts(requestText("HEAD")),
				response: inParts("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
			})
			add(exchange{
				name: "HEAD, a chunked response", request: inParts(requestText("HEAD")),
				response: inParts("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
			})
			add(exchange{
				name: "HEAD, a response without a length or chunks", request: inParts(requestText("HEAD")),
				response: inParts("HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n"),
			})
			add(exchange{
				name: "HEAD, a response with a body", request: inParts(requestText("HEAD")),
				response: inParts("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), afterwards: thenClose,
			})
			continue
		}
		add(okExchange(method, requestText(method)))
		add(okExchange(method+" with a body", requestText(method, "Content-Length: 4")+"body"))
		add(okExchange(method+" with an empty body", requestText(method, "Content-Length: 0")))
		add(okExchange(method+" in chunks",
			requestText(method, "Transfer-Encoding: chunked")+"2\r\nbo\r\n", "2\r\ndy\r\n", "0\r\n\r\n"))
		add(okExchange(method+" with an empty chunked body", requestText(method, "Transfer-Encoding: chunked")+"0\r\n\r\n"))
	}
	return out
}

// requestExchanges returns exchanges about requests, most of them with okResponse.
func requestExchanges() []exchange {
	const chunked = "Transfer-Encoding: chunked"
	return []exchange{
		okExchange("chunks with extensions", requestText("POST", chunked)+"4;a=b\r\nbody\r\n0;c\r\n\r\n"),
		okExchange("trailers of a request",
			requestText("POST", chunked, "Trailer: X-Sum")+"4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n"),
		okExchange("unannounced trailers of a request", requestText("POST", chunked)+"4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n"),
		{
			name: "trailers in response to TE", request: inParts(requestText("GET", "TE: trailers", "Connection: TE")),
			response: inParts("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" +
				"2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"),
		},
		okExchange("a slow body", requestText("POST", "Content-Length: 4")+"b", "o", "d", "y"),
		{
			name: "a body that breaks off", request: inParts(requestText("POST", "Content-Length: 9") + "body"),
			response: okResponse, halfClose: true,
		},
		{
			name: "chunks that break off", request: inParts(requestText("POST", chunked) + "4\r\nbody\r\n"),
			response: okResponse, halfClose: true,
		},
		okExchange("invalid chunks of a request", requestText("POST", chunked)+"zz\r\n"),
		okExchange("a large body", requestText("POST", "Content-Length: 8388608")+"{mib}{mib}{mib}{mib}{mib}{mib}{mib}{mib}"),
		okExchange("a head in parts", "GET /x HTT", "P/1.1\r\n{case}", "X-A: 1\r\n", "\r\n"),
		okExchange("100-continue", requestText("POST", "Expect: 100-continue", "Content-Length: 4"), "body"),
		{
			name: "100-continue, refused", request: inParts(requestText("POST", "Expect: 100-continue", "Content-Length: 4")),
			response:   inParts("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
			beforeBody: true, afterwards: thenClose,
		},
		okExchange("another expectation", requestText("GET", "Expect: wonders")),
		okExchange("HTTP/1.0", "GET /x HTTP/1.0\r\n{case}\r\n"),
		okExchange("HTTP/1.0 kept alive", "GET /x HTTP/1.0\r\n{case}Connection: keep-alive\r\n\r\n"),
		{
			name: "HTTP/1.0, a chunked response", request: inParts("GET /x HTTP/1.0\r\n{case}\r\n"),
			response: inParts("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
		},
		{
			name: "HTTP/1.0, a response with a hint", request: inParts("GET /x HTTP/1.0\r\n{case}\r\n"),
			response: inParts("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
		},
		okExchange("Connection: close", requestText("GET", "Connection: close")),
		okExchange("two pipelined requests", requestText("GET")+requestText("GET")),
		okExchange("two pipelined requests with bodies",
			requestText("POST", "Content-Length: 4")+"one1"+requestText("POST", "Content-Length: 4")+"two2"),
		okExchange("two sequential requests", requestText("GET"), requestText("GET")),
		{name: "a client that half-closes", request: inParts(requestText("GET")), response: okResponse, halfClose: true},
		okExchange("a repeated field", requestText("GET", "X-A: 1", "X-A: 2")),
		okExchange("a field of two values", requestText("GET", "X-A: 1, 2")),
		okExchange("an empty field", requestText("GET", "X-A:")),
		okExchange("a field with space around", requestText("GET", "X-A:  \t a  b \t ")),
		okExchange("a field with bytes beyond ASCII", requestText("GET", "X-A: \xe4\xf6 ä")),
		okExchange("a field with a tab", requestText("GET", "X-A: a\tb")),
		okExchange("a long field", requestText("GET", "X-A: "+strings.Repeat("a", 6000))),
		okExchange("a folded field", requestText("GET", "X-A: a", " b")),
		okExchange("cookies", requestText("GET", "Cookie: a=1", "Cookie: b=2")),
		okExchange("fields of the connection", requestText("GET", "Connection: keep-alive, x-listed", "X-Listed: 1",
			"Keep-Alive: timeout=5", "Proxy-Connection: keep-alive")),
		{
			name: "a range", request: inParts(requestText("GET", "Range: bytes=0-1", "If-Range: \"a\"")),
			response: inParts("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nok"),
		},
		{
			name:     "a conditional request",
			request:  inParts(requestText("GET", "If-None-Match: \"a\"", "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT")),
			response: inParts("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
		},
		{
			name: "accepted encodings", request: inParts(requestText("GET", "Accept-Encoding: gzip, br")),
			response: inParts("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok"),
		},
		okExchange("an empty Accept-Encoding", requestText("GET", "Accept-Encoding:")),
		okExchange("a user agent", requestText("GET", "User-Agent: me/1")),
		okExchange("a query", "GET /x?a=%2F&b=+&c=%zz&;d HTTP/1.1\r\n{case}\r\n"),
		okExchange("an empty query", "GET /x? HTTP/1.1\r\n{case}\r\n"),
		okExchange("a target with its host", "GET http://shop.test/x HTTP/1.1\r\n{case}\r\n"),
		okExchange("escapes in the path", "GET /%61%2D%7e%C3%A4 HTTP/1.1\r\n{case}\r\n"),
		okExchange("max-forwards", requestText("OPTIONS", "Max-Forwards: 3")),
	}
}

// exchangesOfStatuses returns exchanges with each kind of status.
func exchangesOfStatuses() []exchange {
	var out []exchange
	add := func(e exchange) { out = append(out, e) }
	for _, status := range []string{
		"201 Created", "202 Accepted", "301 Moved Permanently", "404 Not Found", "418 Odd",
		"429 Too Many Requests", "500 Oops", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout", "599 Odd",
	} {
		add(getExchange("status "+status,
			"HTTP/1.1 "+status+"\r\nContent-Length: 2\r\nRetry-After: 7\r\nLocation: /y\r\n\r\nok"))
	}
	add(getExchange("a status without a reason", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok"))
	add(getExchange("a status without a reason and without a space", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"))
	for _, status := range []string{"204 No Content", "304 Not Modified", "205 Reset Content"} {
		add(getExchange(status, "HTTP/1.1 "+status+"\r\nX-A: 1\r\n\r\n").then(thenClose))
		add(getExchange(status+" with a length", "HTTP/1.1 "+status+"\r\nContent-Length: 2\r\n\r\n").then(thenClose))
		add(getExchange(status+" with a body", "HTTP/1.1 "+status+"\r\nContent-Length: 2\r\n\r\nok").then(thenClose))
		add(getExchange(status+" in chunks",
			"HTTP/1.1 "+status+"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").then(thenClose))
	}
	return out
}

// framedExchanges returns exchanges about 1xx responses, and about ends and trailers of responses.
func framedExchanges() []exchange {
	return []exchange{
		getExchange("a hint", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n", okResponse[0]),
		getExchange("three hints",
			"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n",
			"HTTP/1.1 103 Early Hints\r\n\r\n", okResponse[0]),
		getExchange("an unexpected 100 Continue", "HTTP/1.1 100 Continue\r\n\r\n"+okResponse[0]),
		getExchange("many hints", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 12)+okResponse[0]),
		getExchange("an unexpected switch",
			"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n").then(thenClose),
		getExchange("a chunked response",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "2\r\nok\r\n", "0\r\n\r\n"),
		getExchange("a response with chunk extensions",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0;c\r\n\r\n"),
		getExchange("an empty chunked response", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		getExchange("an empty response", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
		getExchange("a response until the connection closes", "HTTP/1.1 200 OK\r\n\r\nok", "ok").then(thenClose),
		getExchange("an empty response until the connection closes", "HTTP/1.1 200 OK\r\n\r\n").then(thenClose),
		getExchange("a response until a reset", "HTTP/1.1 200 OK\r\n\r\nok", "ok").then(thenReset),
		getExchange("a response of HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok").then(thenClose),
		getExchange("a response of HTTP/1.0 until the connection closes", "HTTP/1.0 200 OK\r\n\r\nok").then(thenClose),
		getExchange("trailers of a response",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"),
		getExchange("unannounced trailers of a response",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"),
		getExchange("an announced trailer that is missing",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
		getExchange("a trailer that is not allowed",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length, X-Sum\r\n\r\n"+
				"2\r\nok\r\n0\r\nContent-Length: 7\r\nX-Sum: 7\r\n\r\n"),
	}
}

// brokenExchanges returns exchanges with responses that break off, or violate the protocol.
func brokenExchanges() []exchange {
	return []exchange{
		getExchange("a response shorter than its length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").then(thenClose),
		getExchange("a response without its body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").then(thenClose),
		getExchange("a response that is reset", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "ok").then(thenReset),
		getExchange("a response longer than its length",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more").then(thenClose),
		getExchange("chunks that end early",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n").then(thenClose),
		getExchange("invalid chunks of a response",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n").then(thenClose),
		getExchange("two different lengths",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok").then(thenClose),
		getExchange("two equal lengths",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok").then(thenClose),
		getExchange("a length and chunks",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nodd\r\n0\r\n\r\n").then(thenClose),
		getExchange("a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok").then(thenClose),
		getExchange("a second transfer coding",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").then(thenClose),
		getExchange("no response").then(thenClose),
		{
			name: "no response to a POST", request: inParts(requestText("POST", "Content-Length: 4") + "body"),
			afterwards: thenClose,
		},
		{
			name: "a reset in place of a response", request: inParts(requestText("POST", "Content-Length: 4") + "body"),
			afterwards: thenReset,
		},
		getExchange("half of a head", "HTTP/1.1 200 OK\r\nX-A: 1\r\n").then(thenClose),
		getExchange("a response of SSH", "SSH-2.0-OpenSSH\r\n").then(thenClose),
		getExchange("a field without a colon", "HTTP/1.1 200 OK\r\nodd\r\nContent-Length: 2\r\n\r\nok").then(thenClose),
		getExchange("a field with a space in its name",
			"HTTP/1.1 200 OK\r\nX A: 1\r\nContent-Length: 2\r\n\r\nok").then(thenClose),
	}
}

// fieldExchanges returns exchanges about fields of responses, and about large responses.
func fieldExchanges() []exchange {
	return []exchange{
		getExchange("an empty field of a response", "HTTP/1.1 200 OK\r\nX-A:\r\nContent-Length: 2\r\n\r\nok"),
		getExchange("a repeated field of a response",
			"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; Path=/\r\nContent-Length: 2\r\n\r\nok"),
		getExchange("a folded field of a response",
			"HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 2\r\n\r\nok").then(thenClose),
		getExchange("a response with bytes beyond ASCII",
			"HTTP/1.1 200 OK\r\nX-A: \xe4\xf6 ä\r\nContent-Length: 2\r\n\r\nok"),
		getExchange("a response with a control character",
			"HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 2\r\n\r\nok").then(thenClose),
		getExchange("a long field of a response",
			"HTTP/1.1 200 OK\r\nX-A: "+strings.Repeat("a", 3000)+"\r\nContent-Length: 2\r\n\r\nok"),
		getExchange("a response without a type", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"),
		getExchange("a response with a date and a server",
			"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: odd\r\nContent-Length: 2\r\n\r\nok"),
		getExchange("fields of the connection in a response",
			"HTTP/1.1 200 OK\r\nConnection: keep-alive, x-listed\r\nX-Listed: 1\r\n"+
				"Keep-Alive: timeout=5\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok"),
		getExchange("a response with Connection: close",
			"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").then(thenClose),
		{
			name: "a response with authentication", request: inParts(requestText("GET", "Authorization: Basic YTpi")),
			response: inParts("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\"\r\n" +
				"WWW-Authenticate: Bearer\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"),
		},
		getExchange("a large response",
			"HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n{mib}{mib}{mib}{mib}", "{mib}{mib}{mib}{mib}"),
		{
			name: "events", request: inParts(requestText("GET", "Accept: text/event-stream")),
			response: inParts("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
				"9\r\ndata: a\n\n\r\n", "9\r\ndata: b\n\n\r\n", "0\r\n\r\n"),
		},
	}
}

// crossingExchanges returns exchanges whose response begins before the end of the request, or whose client disconnects.
func crossingExchanges() []exchange {
	return []exchange{
		{
			name: "a response before the body", request: inParts(requestText("POST", "Content-Length: 4"), "body"),
			response: inParts("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno"), beforeBody: true,
		},
		{
			name: "a response before the body, and a close", request: inParts(requestText("POST", "Content-Length: 4"), "body"),
			response:   inParts("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"),
			beforeBody: true, afterwards: thenClose,
		},
		{
			name:       "a response before a large body, and a close",
			request:    inParts(requestText("POST", "Content-Length: 8388608")+"{mib}{mib}{mib}{mib}", "{mib}{mib}{mib}{mib}"),
			response:   inParts("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"),
			beforeBody: true, afterwards: thenClose,
		},
		{
			name: "a client that disconnects", request: inParts(requestText("GET")),
			response: inParts("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"), afterwards: thenWait,
			disconnect: true,
		},
	}
}

// switchExchanges returns exchanges about switches to other protocols.
func switchExchanges() []exchange {
	return []exchange{
		{
			name: "a switch", request: inParts(requestText("GET", "Connection: Upgrade", "Upgrade: odd")),
			response:   inParts("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\nX-A: 1\r\n\r\n"),
			afterwards: thenEcho,
		},
		{
			name: "a WebSocket",
			request: inParts(requestText("GET", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket",
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: a, b")),
			response: inParts("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
				"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: b\r\n\r\n"),
			afterwards: thenEcho,
		},
		{
			name: "a refused switch", request: inParts(requestText("GET", "Connection: Upgrade", "Upgrade: websocket")),
			response: inParts("HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\n" +
				"Upgrade: other\r\nContent-Length: 2\r\n\r\nno"),
		},
		okExchange("an ignored switch", requestText("GET", "Connection: Upgrade", "Upgrade: odd")),
		okExchange("a switch with a body",
			requestText("POST", "Connection: Upgrade", "Upgrade: odd", "Content-Length: 4")+"body"),
		okExchange("Upgrade without Connection", requestText("GET", "Upgrade: websocket")),
		okExchange("h2c", requestText("GET", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
			"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")),
	}
}
