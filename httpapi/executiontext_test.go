package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/resources/budget"
)

// If a result is too large for one response, the execution has its beginning, and the
// complete result can be read at once and in pieces.
func TestResultLargerThanAnAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := budget.New(budget.Options{Answers: 1 << 20, Runs: 1, Cache: 1, Patience: time.Millisecond})
	s.serve(func(o *httpapi.Options) { o.Budget = b })
	result := strings.Repeat("0123456789", 50<<10)
	got := make(chan answer, 1)
	go func() { got <- s.do("POST", "/api/exec?wait=30", `{"code":"1"}`) }()
	a := s.nextRequest()
	a.finish(events.StatusCompleted, result, "")
	path := "/api/executions/" + a.request.ExecutionID
	for name, answered := range map[string]answer{"submission with wait": <-got, "get": s.do("GET", path, ""), "get with wait": s.do("GET", path+"?wait=0", "")} {
		var d whole
		answered.into(t, http.StatusOK, &d)
		if d.Result == nil || len(*d.Result) >= len(result) || !strings.HasPrefix(result, *d.Result) || d.ResultTruncated || len(d.CutTexts) != 1 || d.CutTexts["result"] != int64(len(result)) {
			t.Errorf("%s: %s", name, answered.body)
		}
		if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], path+"/texts/result") || !strings.Contains(d.Warnings[0], "daybook exec text ") {
			t.Errorf("%s: warnings %q", name, d.Warnings)
		}
	}
	if a := s.do("GET", path+"/texts/result", ""); a.StatusCode != http.StatusOK || string(a.body) != result || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("the complete result: %s with %d bytes, %s", a.Status, len(a.body), a.Header.Get("Content-Type"))
	}
	if a := s.do("GET", path+"/texts/result", "", "Range", "bytes=100003-100008"); a.StatusCode != http.StatusPartialContent || string(a.body) != "345678" {
		t.Errorf("a piece of the result: %s %q", a.Status, a.body)
	}
	if a := s.do("GET", path+"/texts/code", ""); a.StatusCode != http.StatusOK || string(a.body) != "1" {
		t.Errorf("the code: %s %q", a.Status, a.body)
	}
	for none, why := range map[string]string{
		path + "/texts/error":               "has no error; its status is completed",
		path + "/texts/output":              "no text of that name",
		"/api/executions/none/texts/result": "Execution 'none' not found",
	} {
		if a := s.do("GET", none, ""); a.StatusCode != http.StatusNotFound || !strings.Contains(string(a.body), why) {
			t.Errorf("%s: %s %s", none, a.Status, a.body)
		}
	}
	if log := s.log.String(); strings.Contains(log, "level=WARN") {
		t.Errorf("the log has warnings:\n%s", log)
	}
	if used := b.Stats().Answers.Used; used != 0 {
		t.Errorf("%d bytes are held after the answers", used)
	}
}
