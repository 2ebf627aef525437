import Bytes
import Deflate
import Foundation
import Testing

@Suite struct AttachmentRouteTests {
    /// 300 bytes, more than stay inline, with their SHA-1.
    private static let large = String(repeating: "stuvwxyz. ", count: 30)
    private static let largeDigest = "sha1-2wkDnpI1IAeCs9KBC3Aj8HmT1mg="

    private static func related(_ parts: [String], boundary: String = "x") -> String {
        parts.map { "--\(boundary)\r\n\($0)\r\n" }.joined() + "--\(boundary)--"
    }

    private static let multipart = ["Content-Type: multipart/related; boundary=\"x\""]

    // MARK: Documents with attachments

    @Test func smallContentsAreInTheJSONOfAMultipart() async throws {
        try await GatewayWorld.with { world in
            let revision = try world.put(
                "a",
                #""_attachments":{"a.txt":{"content_type":"text/plain","data":"aGVsbG8="}}"#
            )
            let stub = try world.ask("GET /db/a")
            let metadata =
                #""digest":"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=","length":5,"revpos":1"#
            #expect(
                stub.text
                    == #"{"_attachments":{"a.txt":{"content_type":"text/plain",\#(metadata),"stub":true}},"#
                    + #""_id":"a","_rev":"\#(revision)","channels":["public"]}"#
            )
            let document =
                #"{"_attachments":{"a.txt":{"content_type":"text/plain","data":"aGVsbG8=",\#(metadata)}},"#
                + #""_id":"a","_rev":"\#(revision)","channels":["public"]}"#
            let json = ["Accept: application/json"]
            #expect(try world.ask("GET /db/a?attachments=true", headers: json).text == document)
            let parts = try world.ask("GET /db/a?attachments=true")
            #expect(parts.headers["etag"] == "\"\(revision)\"")
            #expect(
                parts.framing
                    == "--B1\r\nContent-Type: application/json\r\n\r\n\(document)\r\n--B1--\r\n"
            )
            let mixed = try world.ask("GET /db/a?open_revs=all&attachments=true")
            #expect(
                mixed.framing == "--B1\r\nContent-Type: multipart/related; boundary=\"B2\"\r\n"
                    + "X-Doc-Id: a\r\nX-Rev-Id: \(revision)\r\n\r\n"
                    + "--B2\r\nContent-Type: application/json\r\n\r\n\(document)\r\n--B2--\r\n"
                    + "--B1--\r\n"
            )
        }
    }

    @Test func largeContentsFollowAndAreAcceptedInAnyOrder() async throws {
        try await GatewayWorld.with { world in
            let small = "hello"
            let md5 = "md5-XUFAKrxLKna5cZ2REBfFkg=="
            let document =
                #"{"channels":["public"],"_attachments":{"#
                + #""b":{"follows":true,"length":300,"digest":"\#(Self.largeDigest)"},"#
                + #""a":{"follows":true,"content_type":"text/plain","digest":"\#(md5)"}}}"#
            let body = Self.related([
                "Content-Type: application/json\r\n\r\n\(document)", "\r\n\(small)",
                "X-Any: 1\r\n\r\n\(Self.large)",
            ])
            let answer = try world.ask("PUT /db/a", headers: Self.multipart, body: body)
            #expect(answer.status == 201, "\(answer.text)")
            let stored = try world.ask("GET /db/a/b")
            #expect(stored.text == Self.large)
            let parts = try world.ask("GET /db/a?attachments=true")
            #expect(
                parts.framing.contains(#""b":{"digest":"\#(Self.largeDigest)","follows":true,"#)
            )
            #expect(
                parts.framing.hasSuffix(
                    "\r\n--B1\r\nContent-Disposition: attachment; filename=\"b\"\r\n\r\n"
                        + "\(Self.large)\r\n--B1--\r\n"
                )
            )
            #expect(parts.text.contains(#""data":"aGVsbG8=""#))
            let since = "%5B%22\(answer.revision)%22%5D"
            let known = try world.ask("GET /db/a?attachments=true&atts_since=\(since)")
            #expect(!known.text.contains("follows") && known.text.contains(#""stub":true"#))
        }
    }

    @Test func partsWithoutDigestsAreMatchedInTheirOrder() async throws {
        try await GatewayWorld.with { world in
            let document =
                #"{"channels":["public"],"_attachments":{"z":{"follows":true},"a":{"follows":true}}}"#
            let body = Self.related(["\r\n\(document)", "\r\nfirst", "\r\nsecond"])
            let answer = try world.ask("PUT /db/a", headers: Self.multipart, body: body)
            #expect(answer.status == 201, "\(answer.text)")
            #expect(try world.ask("GET /db/a/z").text == "first")
            #expect(try world.ask("GET /db/a/a").text == "second")
        }
    }

    @Test func invalidMultipartsAreRefused() async throws {
        try await GatewayWorld.with { world in
            let document =
                #"{"_attachments":{"a":{"follows":true,"digest":"\#(Self.largeDigest)"}}}"#
            let cases: [([String], String)] = [
                (["\r\n\(document)", "\r\nother"], "MIME part #2 doesn't match any attachment"),
                (["\r\n\(document)"], "Too few MIME parts: expected 1 attachments, got 0"),
                (["\r\n{}", "\r\nother"], "Too many MIME parts (expected 1)"),
                (["\r\nnot json"], "Bad JSON"),
            ]
            for (parts, reason) in cases {
                let body = Self.related(parts)
                let answer = try world.ask("PUT /db/a", headers: Self.multipart, body: body)
                #expect(answer.status == 400 && answer.reason == reason, "\(answer.text)")
            }
            let cut = try world.ask("PUT /db/a", headers: Self.multipart, body: "--x\r\n\r\n{")
            #expect(cut.status == 400 && cut.reason == "Bad JSON")
            let whole = Self.related(["\r\n\(document)", "\r\nother"])
            let short = String(whole.dropLast(6))
            let late = try world.ask("PUT /db/a", headers: Self.multipart, body: short)
            #expect(late.status == 400 && late.reason == "The multipart body is cut short")
        }
    }

    @Test func compressedPartsAreReadAndWritten() async throws {
        try await GatewayWorld.with { world in
            let filler = String(repeating: "abc", count: 200)
            let text = ByteWriter()
            let deflater = Deflater(.gzip)
            #"{"channels":["public"],"filler":"\#(filler)"}"#.withView {
                deflater.deflate($0, to: text)
            }
            deflater.finish(to: text)
            var body = Array("--x\r\nContent-Encoding: gzip\r\n\r\n".utf8) + text.bytes
            body += Array("\r\n--x--".utf8)
            let answer = try world.ask("PUT /db/a", headers: Self.multipart, bytes: body)
            #expect(answer.status == 201, "\(answer.text)")
            let parts = try world.ask(
                "GET /db/a",
                headers: ["Accept: multipart/related", "X-Accept-Part-Encoding: gzip"]
            )
            let head = "Content-Encoding: gzip\r\nContent-Type: application/json\r\n\r\n"
            let start = try #require(parts.body.firstRange(of: Array(head.utf8))?.upperBound)
            let read = ByteWriter()
            let inflater = Inflater(.gzip)
            let end = parts.body.count - "\r\n--\(parts.boundary)--\r\n".utf8.count
            _ = try parts.body[start..<end].withUnsafeBytes { bytes in
                try inflater.inflate(ByteView(bytes), to: read, atMost: 1 << 20)
            }
            #expect(String(decoding: read.bytes, as: UTF8.self).contains(filler))
        }
    }

    // MARK: Single attachments

    @Test func attachmentIsReadInRanges() async throws {
        try await GatewayWorld.with { world in
            let put = try world.ask(
                "PUT /db/a/dir/b.txt",
                headers: ["Content-Type: text/plain"],
                body: "hello"
            )
            #expect(put.status == 201)
            #expect(put.text == #"{"id":"a","ok":true,"rev":"\#(put.revision)"}"#)
            #expect(put.headers["etag"] == "\"\(put.revision)\"")
            let whole = try world.ask("GET /db/a/dir/b.txt", .administrator)
            #expect(whole.status == 200 && whole.text == "hello")
            #expect(whole.headers["content-type"] == "text/plain")
            #expect(whole.headers["accept-ranges"] == "bytes")
            #expect(whole.headers["etag"] == "\"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=\"")
            let name = #"attachment; filename="dir/b.txt""#
            #expect(whole.headers["content-disposition"] == name)
            let part = try world.ask(
                "GET /db/a/dir/b.txt",
                .administrator,
                headers: ["Range: bytes=1-2"]
            )
            #expect(part.status == 206 && part.phrase == "Partial Content" && part.text == "el")
            #expect(part.headers["content-range"] == "bytes 1-2/5")
            #expect(part.headers["content-length"] == "2")
            let behind = try world.ask(
                "GET /db/a/dir/b.txt",
                .administrator,
                headers: ["Range: bytes=5-"]
            )
            #expect(behind.status == 416)
            let head = try world.ask("HEAD /db/a/dir/b.txt", .administrator)
            #expect(head.body.isEmpty && head.headers["content-length"] == "5")
            let missing = try world.ask("GET /db/a/x", .administrator)
            #expect(missing.status == 404 && missing.reason == "missing attachment x")
        }
    }

    @Test func encodedContentIsSentAsItIsStored() async throws {
        try await GatewayWorld.with { world in
            try world.put(
                "a",
                #""_attachments":{"x":{"content_type":"text/plain","encoding":"gzip","length":9,"data":"aGVsbG8="}}"#
            )
            let encoded = try world.ask("GET /db/a/x")
            #expect(encoded.headers["content-encoding"] == "gzip" && encoded.text == "hello")
            let plain = try world.ask("GET /db/a/x?content_encoding=false")
            #expect(plain.headers["content-encoding"] == nil)
            #expect(plain.headers["x-content-encoding"] == "gzip")
            #expect(plain.headers["content-type"] == "application/gzip")
        }
    }

    @Test func attachmentIsReplacedAndDeleted() async throws {
        try await GatewayWorld.with { world in
            let first = try world.put(
                "a",
                #""_attachments":{"x":{"data":"eA=="},"y":{"data":"eQ=="}}"#
            )
            let blind = try world.ask("PUT /db/a/x", body: "z")
            #expect(blind.status == 409 && blind.reason == "Document exists")
            let second = try world.ask("PUT /db/a/x?rev=\(first)", body: "z")
            #expect(second.status == 201)
            #expect(try world.ask("GET /db/a/x").text == "z")
            #expect(try world.ask("GET /db/a/y").text == "y")
            let none = try world.ask("DELETE /db/a/q?rev=\(second.revision)")
            #expect(none.status == 404 && none.reason == "Attachment q is not found")
            let third = try world.ask("DELETE /db/a/x?rev=\(second.revision)")
            #expect(third.status == 200 && third.headers["etag"] == "\"\(third.revision)\"")
            #expect(try world.ask("GET /db/a/x").status == 404)
            #expect(try world.ask("GET /db/a/y").text == "y")
            #expect(try world.ask("GET /db/a").object["channels"] != nil)
        }
    }

    @Test func contentOfMoreThanAPieceIsTransferredWhole() async throws {
        try await GatewayWorld.with { world in
            let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }
            let put = try world.ask(
                "PUT /db/a/x",
                headers: ["Content-Type: application/x"],
                bytes: bytes
            )
            #expect(put.status == 201)
            #expect(try world.ask("GET /db/a/x", .administrator).body == bytes)
            let parts = try world.ask("GET /db/a?attachments=true", .administrator)
            #expect(parts.body.firstRange(of: bytes) != nil)
            let large = try world.ask(
                "PUT /db/b/x",
                headers: ["Content-Type: application/x"],
                bytes: [UInt8](repeating: 1, count: 20 << 20 | 1)
            )
            #expect(large.status == 413)
        }
    }
}
