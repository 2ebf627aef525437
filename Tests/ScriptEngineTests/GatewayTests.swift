import Testing
import Wire

/// Functions as a sync gateway defines them: its dialect of JavaScript and its metadata.
@Suite struct GatewayTests {
    let engine = Engine()

    /// The metadata of a document: numbers of vBucket and seqno are strings.
    private func document(_ id: String, _ body: String, xattrs: String = "{}") -> Document {
        let meta = #"{"id":"\#(id)","rev":"1-0","vb":"12","seq":"345","xattrs":\#(xattrs)}"#
        return Document(meta: meta, body: body)
    }

    @Test func channelsFunctionEmitsEveryChannel() throws {
        // Loops and variables without `var`, flags as bits.
        try engine.define(
            """
            function (doc, meta) {
              var sync = meta.xattrs !== undefined && meta.xattrs._sync !== undefined
                ? meta.xattrs._sync : doc._sync;
              if (sync === undefined || meta.id.substring(0, 6) == "_sync:") return;
              sequence = sync.sequence;
              if (sequence === undefined) return;
              value = { rev: sync.rev };
              if (sync.flags) value.flags = sync.flags;
              if (sync.flags & 1) value.deleted = true;
              emit(["*", sequence], value);
              for (ch in sync.channels) {
                removed = sync.channels[ch];
                if (!removed) emit([ch, sequence], value);
                else emit([ch, removed.seq], { rev: removed.rev, flags: 2 });
              }
            }
            """
        )
        let channels = #"{"a":null,"b":{"seq":5,"rev":"0-b"}}"#
        let sync = #"{"sequence":7,"rev":"1-a","flags":1,"channels":\#(channels)}"#
        let expected = [
            #"["*",7]={"rev":"1-a","flags":1,"deleted":true}"#,
            #"["a",7]={"rev":"1-a","flags":1,"deleted":true}"#, #"["b",5]={"rev":"0-b","flags":2}"#,
        ]
        let answer = try engine.map(
            [1],
            [
                document("d1", #"{"_sync":\#(sync)}"#),
                document("d2", "{}", xattrs: #"{"_sync":\#(sync)}"#),
                document("_sync:user:x", #"{"_sync":\#(sync)}"#), document("d3", "{}"),
            ]
        )
        #expect(answer.pairs() == expected + expected)
        #expect(answer.problems.isEmpty)
    }

    @Test func accessFunctionEmitsVBucketAndSeqno() throws {
        try engine.define(
            """
            function (doc, meta) {
              if (doc._sync === undefined) return;
              var access = doc._sync.access;
              if (access) for (name in access) {
                emit(name, { ch: access[name], vb: parseInt(meta.vb, 10), seq: parseInt(meta.seq, 10) });
              }
            }
            """
        )
        let answer = try engine.map([1], [document("d", #"{"_sync":{"access":{"ann":{"x":1}}}}"#)])
        #expect(answer.pairs() == [#""ann"={"ch":{"x":1},"vb":12,"seq":345}"#])
    }

    @Test func principalsFunctionEmitsNames() throws {
        try engine.define(
            """
            function (doc, meta) {
              var prefix = meta.id.substring(0, 11);
              isUser = prefix === "_sync:user:";
              if (isUser || meta.id.substring(0, 11) === "_sync:role:")
                emit(meta.id.substring(11), isUser);
            }
            """
        )
        let ids = ["_sync:user:", "_sync:user:ann", "_sync:role:r", "other"]
        let answer = try engine.map([1], ids.map { document($0, "{}") })
        #expect(answer.pairs() == [#"""=true"#, #""ann"=true"#, #""r"=false"#])
    }
}
