import Bytes
import SyncWire
import TestWorld

/// Bodies that arrive in chunks: the result does not depend on them.
enum SyncChunkTarget {
    /// The first byte chooses the reader; the next bytes up to a zero are the lengths of chunks.
    static func run(_ view: ByteView) {
        guard view.count > 2 else { return }
        let header = view.dropFirst(1).buffer.prefix { $0 != 0 }.map { Int($0) }
        let text = view.dropFirst(min(header.count + 2, view.count))
        let chunks = chunks(of: text, lengths: header)
        if view[0] & 1 == 0 {
            require(parts([text]) == parts(chunks), "parts do not depend on chunks")
        } else {
            require(documents([text]) == documents(chunks), "documents do not depend on chunks")
        }
    }

    private static func chunks(of text: ByteView, lengths: [Int]) -> [ByteView] {
        var chunks: [ByteView] = []
        var rest = text
        for length in lengths where !rest.isEmpty {
            chunks.append(rest.slice(0, min(length, rest.count)))
            rest = rest.dropFirst(min(length, rest.count))
        }
        return chunks + [rest]
    }

    /// The events of a body with the boundary `b`, one line each; body data is joined.
    private static func parts(_ chunks: [ByteView]) -> [[UInt8]] {
        guard let reader = try? MultipartReader(boundary: "b") else { return [] }
        var events: [[UInt8]] = [[]]
        do throws(MultipartFailure) {
            for chunk in chunks {
                try reader.read(chunk) { event in
                    switch event {
                    case .part(let headers): events += [Array("\(headers.fields)".utf8), []]
                    case .data(let data): events[events.count - 1] += data.bytes
                    case .partEnd: events.append([])
                    }
                }
            }
            try reader.finish()
        } catch {
            // A chunk that ends within a part passes on data that a whole body, refused later, passes on too.
            events.append(Array(error.reason.utf8))
        }
        return events
    }

    private static func documents(_ chunks: [ByteView]) -> [[UInt8]] {
        let reader = BulkDocumentsReader()
        var documents: [[UInt8]] = []
        do throws(RequestRefusal) {
            for chunk in chunks { try reader.read(chunk) { documents.append($0.bytes) } }
            try reader.finish()
            documents.append([reader.newEdits ? 1 : 0])
        } catch {
            documents.append(Array(error.reason.utf8))
        }
        return documents
    }
}

/// Values of headers, paths and queries.
enum SyncHeaderTarget {
    static func run(_ view: ByteView) {
        let text = view.text
        for length in [0, 1, 1_000] {
            guard case .part(let offset, let count) = ByteRange(text, length: length) else {
                continue
            }
            require(
                offset >= 0 && count > 0 && offset + count <= length && count < length,
                "a range is a part of the body"
            )
        }
        if let credentials = BasicCredentials(authorization: text) {
            require(
                BasicCredentials(authorization: credentials.authorization) == credentials,
                "credentials parse to themselves"
            )
        }
        _ = BasicCredentials(userInfo: view)
        let encoded = PercentCoding.encode(text)
        require(
            encoded.withView { PercentCoding.decode($0) } == text,
            "encoded text decodes to itself"
        )
        require(EntityTag.text(of: EntityTag.quoted(text)) == text, "a quoted tag has its text")
        let cookie = SessionCookie.setting(id: "x", database: text, expiry: view.count)
        require(cookie.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f }, "a cookie has no other header")
        _ = SessionCookie.value(of: SessionCookie.name, in: text)
        _ = PercentCoding.segments(ofPath: view)
        if let type = ContentType(text), let reader = try? type.multipartReader() {
            require(!reader.isEnded, "a new reader is at the beginning")
        }
        let acceptance = Acceptance(text)
        _ = (acceptance.listForm, acceptance.documentForm(hasBodies: true))
        guard let query = try? URLParameters(view) else { return }
        _ = try? ChangesRequest(query: query)
        _ = try? DocumentQuery(query)
        _ = try? AllDocumentsRequest(query: query, body: nil)
    }
}

/// Configuration files: a file is refused at a line that it has, or parsed.
enum SyncConfigurationTarget {
    static func run(_ view: ByteView) {
        let lineCount = view.buffer.reduce(1) { $1 == 0x0a ? $0 + 1 : $0 }
        func check(_ position: SourcePosition) {
            require(1...lineCount ~= position.line, "a mistake is at a line of the file")
            require(1...view.count + 1 ~= position.column, "a mistake is at a column of the file")
        }
        do throws(ConfigurationMistake) {
            let file = try GatewayConfiguration(view)
            for notice in file.notices { check(notice.position) }
            require(
                file.dialect == .first || file.notices.allSatisfy { $0.kind == .withoutEffect },
                "the current dialect refuses unknown keys"
            )
        } catch {
            check(error.position)
        }
        do throws(ConfigurationMistake) {
            _ = try DatabaseConfiguration.parse(view, name: "d", dialect: .first)
        } catch {
            check(error.position)
        }
    }
}
