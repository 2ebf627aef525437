import Bytes
import SyncWire
import Testing

/// The texts are those of the recorded gateway.
@Suite struct ChangesWriterTests {
    private func row(_ sequence: String, _ id: String, _ revisions: [String]) throws -> ChangesRow {
        ChangesRow(sequence: try SequenceToken(sequence), id: id, revisions: revisions)
    }

    @Test func recordedAnswerIsWritten() throws {
        var removed = try row("11", "p3", ["2-345bcca6b28edd38a079d3b1b79a67ad"])
        removed.isDeleted = true
        removed.removed = ["_public"]
        let first = try row("9", "p1", ["1-7c194aff127357df250e1fe2fe89710e"])
        let text = written { output in
            var writer = ChangesWriter(.normal, output)
            writer.begin()
            writer.append(first)
            writer.append(removed)
            writer.end(last: removed.sequence)
        }
        #expect(
            text == "{\"results\":[\r\n"
                + #"{"seq":9,"id":"p1","changes":[{"rev":"1-7c194aff127357df250e1fe2fe89710e"}]}"#
                + "\n,"
                + #"{"seq":11,"id":"p3","deleted":true,"removed":["_public"],"#
                + #""changes":[{"rev":"2-345bcca6b28edd38a079d3b1b79a67ad"}]}"#
                + "\n],\n\"last_seq\":\"11\"}\n"
        )
        #expect(text.utf8.count == 227)
    }

    @Test func recordedAnswerForDocumentsEndsWithANumber() throws {
        let rows = try [
            row("30", "t1", ["1-fc5dde8cea54343d97c45c8d25ecf83f"]),
            row("31", "att1", ["1-4af538dccddc1de94d93b24764491400"]),
        ]
        let text = written { output in
            var writer = ChangesWriter(.normal, output)
            writer.begin()
            for row in rows { writer.append(row) }
            writer.end(last: SequenceToken(31), isNumber: true)
        }
        #expect(text.hasSuffix("],\n\"last_seq\":31}\n"))
        #expect(text.utf8.count == 191)
    }

    @Test func longPollWithoutChangesEndsWithSince() {
        let text = written { output in
            var writer = ChangesWriter(.longpoll, output)
            writer.begin()
            writer.heartbeat()
            writer.end(last: SequenceToken(99_999))
        }
        #expect(text == "{\"results\":[\r\n\n],\n\"last_seq\":\"99999\"}\n")
    }

    @Test func continuousFeedHasARowALine() throws {
        let row = try row("31", "att1", ["1-4a"])
        let text = written { output in
            var writer = ChangesWriter(.continuous, output)
            writer.begin()
            writer.append(row)
            writer.append(row)
            writer.heartbeat()
            writer.end(last: row.sequence)
        }
        let line = #"{"seq":31,"id":"att1","changes":[{"rev":"1-4a"}]}"# + "\n"
        #expect(text == line + line + "\n")
    }

    @Test func webSocketMessagesAreArrays() throws {
        let row = try row("6:4", "d<", ["1-a", "1-b"])
        let text = written { output in
            var writer = ChangesWriter(.websocket, output)
            for count in [2, 0, 1] {
                writer.begin()
                for _ in 0..<count { writer.append(row) }
                writer.heartbeat()
                writer.end(last: row.sequence)
            }
        }
        let json = #"{"seq":"6:4","id":"d\u003c","changes":[{"rev":"1-a"},{"rev":"1-b"}]}"#
        #expect(text == "[\(json),\(json)][][\(json)]")
    }

    @Test func principalsAndDocumentsHaveTheirRows() throws {
        let user = try row("3", "_user/jane", [])
        #expect(written { user.append(to: $0) } == #"{"seq":3,"id":"_user/jane","changes":[]}"#)
        var row = try row("1", "_user/", [""])
        #expect(
            written { row.append(to: $0) } == #"{"seq":1,"id":"_user/","changes":[{"rev":""}]}"#
        )
        row.document = Array(#"{"_id":"x"}"#.utf8)
        #expect(
            written { row.append(to: $0) }
                == #"{"seq":1,"id":"_user/","doc":{"_id":"x"},"changes":[{"rev":""}]}"#
        )
    }
}
