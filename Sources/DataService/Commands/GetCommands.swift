internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    func get(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let vBucket = vBucket(exchange, bucket.engine) else { return .done }
        var wakesFlusher = false
        let wait: Wait? = vBucket.withCore { core in
            switch core.get(exchange.frame.key, hash: exchange.hash, turn) {
            case .found(let item, let cas):
                guard hasRoom(for: item) else {
                    answerNoReplyMemory(exchange)
                    return nil
                }
                appendDocument(item, cas, exchange, withKey: exchange.command.opcode == .getKey)
                bucket.counters.count(.getHits, row: context.row)
                return nil
            case .wouldBlock(let wait): return wait
            case .notFound:
                // It may have become a tombstone just now.
                wakesFlusher = core.takeOwedWake()
                bucket.counters.count(.getMisses, row: context.row)
                miss(exchange)
            case .notMyVBucket: answerNotMyVBucket(exchange)
            case .locked: answer(.locked, to: exchange.replyTo)
            case .temporaryFailure: answer(.temporaryFailure, to: exchange.replyTo)
            case .inProgress: answerOutstanding(exchange, isInherited: false)
            case .recommitting: answerOutstanding(exchange, isInherited: true)
            }
            return nil
        }
        if wakesFlusher { wakeFlusher(exchange, bucket) }
        if let wait { return self.wait(exchange, for: wait, completion) }
        bucket.counters.count(.gets, row: context.row)
        return .done
    }

    /// GET_REPLICA: what a copy has that follows another node's, newest or not.
    ///
    /// No lease is needed for it: nothing is promised.
    func getReplica(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let vBucket = bucket.engine[vBucketNumber(exchange.frame, bucket.engine)] else {
            answerNotMyVBucket(exchange)
            return .done
        }
        let wait: Wait? = vBucket.withCore { core in
            switch core.getReplica(exchange.frame.key, hash: exchange.hash, turn) {
            case .found(let item, let cas):
                guard hasRoom(for: item) else {
                    answerNoReplyMemory(exchange)
                    return nil
                }
                appendDocument(item, cas, exchange, withKey: false)
                return nil
            case .wouldBlock(let wait): return wait
            case .notMyVBucket: answerNotMyVBucket(exchange)
            case .temporaryFailure: answer(.temporaryFailure, to: exchange.replyTo)
            case .notFound: answer(.keyNotFound, to: exchange.replyTo)
            case .inProgress, .recommitting, .locked:
                preconditionFailure("a copy that follows another one decides nothing itself")
            }
            return nil
        }
        if let wait { return self.wait(exchange, for: wait, completion) }
        bucket.counters.count(.otherCommands, row: context.row)
        return .done
    }

    /// A document that is not there; memcached's GETK echoes the key even then.
    private func miss(_ exchange: Exchange) {
        guard !exchange.command.isQuiet else { return }
        guard exchange.command.opcode == .getKey, isPlain else {
            return answer(.keyNotFound, to: exchange.replyTo)
        }
        ResponseEncoder.append(
            .keyNotFound,
            to: output,
            replyTo: exchange.replyTo,
            key: exchange.frame.key,
            value: .empty
        )
    }

    /// Appends a document's answer, copying it out of the item: called under the vBucket's lock.
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
        guard let vBucket = vBucket(exchange, bucket.engine) else { return .done }
        var wakesFlusher = false
        let wait: Wait? = vBucket.withCore { core in
            defer { wakesFlusher = core.takeOwedWake() }
            switch core.getMeta(exchange.frame.key, hash: exchange.hash, turn) {
            case .found(let item, let cas):
                appendMeta(item.meta, cas, exchange, withDatatype: version == 2)
            case .wouldBlock(let wait): return wait
            case .notMyVBucket: answerNotMyVBucket(exchange)
            case .notFound:
                if !exchange.command.isQuiet { answer(.keyNotFound, to: exchange.replyTo) }
            case .locked: answer(.locked, to: exchange.replyTo)
            case .temporaryFailure: answer(.temporaryFailure, to: exchange.replyTo)
            case .inProgress: answerOutstanding(exchange, isInherited: false)
            case .recommitting: answerOutstanding(exchange, isInherited: true)
            }
            return nil
        }
        if wakesFlusher { wakeFlusher(exchange, bucket) }
        if let wait { return self.wait(exchange, for: wait, completion) }
        bucket.counters.count(.otherCommands, row: context.row)
        return .done
    }

    /// deleted 4, flags 4, expiry 4, revision 8, and datatype 1 where it was asked for.
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
