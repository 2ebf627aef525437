internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    func get(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(exchange, bucket) else { return .done }
        let withKey = exchange.command.opcode == .getKey
        let outcome = operations(exchange, on: bucket, completion).get(document) { item, cas in
            guard hasRoom(for: item) else { return answerNoReplyMemory(exchange) }
            appendDocument(item, cas, exchange, withKey: withKey)
        }
        switch outcome {
        case .found: return .done
        case .refused(.notFound):
            miss(exchange)
            return .done
        default: return finishRead(exchange, outcome, document, bucket, completion)
        }
    }

    /// GET_REPLICA: reads a replica, which may be stale.
    func getReplica(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        let number = vBucketNumber(exchange.frame, bucket.engine)
        guard let vBucket = bucket.engine[number] else {
            answerNotMyVBucket(exchange)
            return .done
        }
        let document = DocumentAddress(
            key: exchange.frame.key,
            hash: exchange.hash,
            id: VBucketID(number),
            vBucket: vBucket
        )
        let outcome = operations(exchange, on: bucket, completion).getReplica(document) {
            item,
            cas in
            guard hasRoom(for: item) else { return answerNoReplyMemory(exchange) }
            appendDocument(item, cas, exchange, withKey: false)
        }
        return finishRead(exchange, outcome, document, bucket, completion)
    }

    /// Converts the outcome of a read into an answer or a wait; the visitor has answered a document
    /// that was found.
    ///
    /// A quiet request is not answered if the document does not exist.
    func finishRead(
        _ exchange: Exchange,
        _ outcome: AttemptOutcome,
        _ document: DocumentAddress,
        _ bucket: OpenBucket,
        _ completion: Completion?
    ) -> Execution {
        switch outcome {
        case .found: return .done
        case .refused(.notFound) where exchange.command.isQuiet: return .done
        case .refused(let refusal):
            answer(refusal, exchange)
            return .done
        case .waits(let wait):
            return self.wait(exchange, for: wait, of: document, bucket, completion)
        case .stored, .prepared: preconditionFailure("a read stores nothing")
        }
    }

    /// Answers that a document does not exist; memcached's GETK then still echoes the key.
    private func miss(_ exchange: Exchange) {
        guard !exchange.command.isQuiet else { return }
        guard exchange.command.opcode == .getKey, isPlain else {
            return answer(.notFound, exchange)
        }
        ResponseEncoder.append(
            .keyNotFound,
            to: output,
            replyTo: exchange.replyTo,
            key: exchange.frame.key,
            value: .empty
        )
    }

    /// Appends a document's answer, copied from the item.
    ///
    /// Called under the vBucket's lock.
    @inline(__always)
    func appendDocument(_ item: Item, _ cas: CAS, _ exchange: Exchange, withKey: Bool) {
        let datatype = isJSONAgreed ? item.datatype.intersection(.json) : []
        if !withKey {
            ResponseEncoder.appendDocument(
                to: output,
                replyTo: exchange.replyTo,
                datatype: datatype,
                cas: cas,
                flags: item.flags,
                value: item.value,
                duration: duration
            )
            return
        }
        withUnsafeBytes(of: item.flags.bigEndian) { flags in
            ResponseEncoder.append(
                .success,
                to: output,
                replyTo: exchange.replyTo,
                datatype: datatype,
                cas: cas,
                extras: ByteView(flags),
                key: exchange.frame.key,
                value: item.value,
                duration: duration
            )
        }
    }

    func getMeta(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let extras = exchange.frame.extras
        let version = extras.isEmpty ? 1 : extras[0]
        guard version <= 2 else {
            answer(.invalid, to: exchange.replyTo, because: "GET_META has versions 1 and 2.")
            return .done
        }
        let bucket = selectedBucket
        guard let document = document(exchange, bucket) else { return .done }
        let outcome = operations(exchange, on: bucket, completion).getMeta(document) { item, cas in
            appendMeta(item.meta, cas, exchange, withDatatype: version == 2)
        }
        return finishRead(exchange, outcome, document, bucket, completion)
    }

    /// Extras: deleted 4, flags 4, expiry 4, revision 8, and in version 2 datatype 1.
    private func appendMeta(
        _ meta: DocumentMeta,
        _ cas: CAS,
        _ exchange: Exchange,
        withDatatype: Bool
    ) {
        let extras = context.scratch
        extras.removeAll()
        extras.append(bigEndian: UInt32(meta.isDeleted ? 1 : 0))
        extras.append(bigEndian: meta.flags)
        extras.append(bigEndian: meta.expiry)
        extras.append(bigEndian: meta.revision)
        if withDatatype { extras.append(meta.datatype.rawValue) }
        ResponseEncoder.append(
            .success,
            to: output,
            replyTo: exchange.replyTo,
            cas: cas,
            extras: extras.view,
            value: .empty,
            duration: duration
        )
    }
}
