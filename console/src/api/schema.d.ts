// Generated from docs/openapi.json by `npm run types`.
export interface paths {
    "/api/v1/advisor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What caches of other sizes would do for each volume, cached or not, and what is hot. */
        get: operations["advise_all"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/disks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["disks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Server-sent events. `event: event` carries an `Event` as JSON, with its id as the message's id; `event: status` carries
         *     a `Status`, at once and then every second. Begins after `after`, or with what comes next.
         */
        get: operations["stream_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory-cache": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["memory_cache"];
        put: operations["set_memory_cache"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Tells each target of notices now, once, that this is a test. */
        post: operations["test_notices"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/operations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_operations"];
        put?: never;
        post: operations["start_operation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/operations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_operation"];
        put?: never;
        post?: never;
        delete: operations["cancel_operation"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_pools"];
        put?: never;
        post: operations["create_pool"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["import_pool"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_pool"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_pool"];
        put?: never;
        post?: never;
        delete: operations["delete_pool"];
        options?: never;
        head?: never;
        patch: operations["set_pool"];
        trace?: never;
    };
    "/api/v1/pools/{name}/conversion": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["convert_pool"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/conversion/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_conversion"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/flush": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["pool_flush"];
        put?: never;
        post?: never;
        delete: operations["cancel_pool_flush"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/hold": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** What is written may stay dirty again, after a flush that held it. */
        delete: operations["release_pool"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/losses": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["losses"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/losses/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["accept_loss"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/open": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["open_pool"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/removal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["cancel_removal"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/settings/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_pool_settings"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/spares": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["add_spares"];
        delete: operations["remove_spares"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/spares/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_spares"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/ssds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["add_ssds"];
        delete: operations["remove_ssds"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/ssds/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_ssds"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/volumes/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_pool_volumes"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["session"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_tokens"];
        put?: never;
        post: operations["create_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["delete_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_volumes"];
        put?: never;
        post: operations["create_volume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_volume"];
        put?: never;
        post?: never;
        delete: operations["delete_volume"];
        options?: never;
        head?: never;
        patch: operations["set_volume"];
        trace?: never;
    };
    "/api/v1/volumes/{name}/advisor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The same of one volume. */
        get: operations["advise"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/backing": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What speaks for and against the backing device's being the right one. */
        get: operations["backing_evidence"];
        /** Takes the backing device of a fenced volume for the right one. */
        put: operations["accept_backing"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/cache": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["enable_cache"];
        post?: never;
        delete: operations["disable_cache"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/clear": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Checks the backing device after a failed flush, or after it was away, and opens it again. Hosts stay connected. */
        post: operations["clear_volume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/connect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["connect"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/explanation": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Where a page of the volume is now, why reads of it missed, and what would get it into the cache. */
        get: operations["explain"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/flush": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["volume_flush"];
        put?: never;
        post?: never;
        delete: operations["cancel_volume_flush"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/growth": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes in what was added to the backing device. Hosts that are connected see the old size until they reconnect, but may use what was added at once. */
        post: operations["grow_volume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/hold": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** What is written may stay dirty again, after a flush that held it. */
        delete: operations["release_volume"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/name": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["rename_volume"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_volume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/recording": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Begins to record what hosts read and write. One at a time; it ends when nothing was taken for ten seconds. */
        put: operations["begin_recording"];
        /** Takes what was recorded since the portion before. At most 65,536 requests wait; more are lost, and counted. */
        post: operations["take_recorded"];
        /** Ends the recording of this id, if it is there. */
        delete: operations["end_recording"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/settings/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_volume_settings"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/whatif": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What pools of these sizes would have done for a volume, as far as what is watched tells. */
        get: operations["whatif"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description What is known of one volume. */
        Advice: {
            /** @description From the smallest to the largest. */
            curve: components["schemas"]["AdvisedSize"][];
            days: components["schemas"]["AdvisedDays"];
            /**
             * Format: int64
             * @description What was accessed at all since the volume is watched, each block once.
             */
            footprint_bytes: number;
            /**
             * Format: int64
             * @description What is known begins here: later than the window does, if the volume is not watched for so long.
             */
            from_unix_seconds: number;
            /** @description Null: it is not cached. */
            pool?: string | null;
            present?: null | components["schemas"]["AdvisedSize"];
            /**
             * Format: int64
             * @description Parts of blocks that were read and written in this time.
             */
            reads: number;
            recommended?: null | components["schemas"]["AdvisedSize"];
            /**
             * Format: double
             * @description The part of all blocks that is watched.
             */
            sample: number;
            /** @description That in words. */
            sentence: string;
            /** @description Of which pool the curve is: of the volume's own, of the one that it had last, or of one with default settings. */
            setup: components["schemas"]["AdvisedPool"];
            /**
             * Format: int32
             * @description How many these are.
             */
            shared_with: number;
            /** Format: int64 */
            size_bytes: number;
            /**
             * Format: int64
             * @description Of the reads, those of streams, which go past the cache.
             */
            stream_reads: number;
            /** Format: int64 */
            to_unix_seconds: number;
            volume: string;
            window: components["schemas"]["AdviceWindow"];
            /** Format: int64 */
            writes: number;
        };
        /** @description `GET /api/v1/advisor?window=` */
        AdviceList: {
            /** @description Of all volumes together. */
            days: components["schemas"]["AdvisedDays"];
            volumes: components["schemas"]["Advice"][];
        };
        /**
         * @description The time of which curves are made.
         * @enum {string}
         */
        AdviceWindow: "day" | "week" | "all";
        /** @description Bytes of one day, each once. */
        AdvisedDay: {
            /**
             * Format: int64
             * @description Its beginning (UTC), in seconds since 1970.
             */
            begins_unix_seconds: number;
            /**
             * Format: int64
             * @description Read, and read again on the same day.
             */
            read_again_bytes: number;
            /** Format: int64 */
            read_bytes: number;
            /** Format: int64 */
            written_bytes: number;
        };
        /** @description Of how many bytes of a volume something was done when, estimated from the blocks that are watched. */
        AdvisedDays: {
            /**
             * Format: int64
             * @description Never since the volume is watched.
             */
            archived_bytes: number;
            /**
             * Format: int64
             * @description Before.
             */
            cold_bytes: number;
            /** @description Today first, seven of them; days before the volume was watched have nothing. */
            days: components["schemas"]["AdvisedDay"][];
            /**
             * Format: int64
             * @description Read or written today.
             */
            hot_bytes: number;
            /**
             * Format: int64
             * @description Not today, but within seven days.
             */
            warm_bytes: number;
        };
        /** @description A pool as it is asked about. */
        AdvisedPool: {
            /** Format: int64 */
            block_bytes: number;
            policy: components["schemas"]["PolicyKind"];
            /** Format: int32 */
            populate_on_read: number;
            /** Format: int32 */
            populate_on_write: number;
            type: components["schemas"]["PoolKind"];
        };
        /** @description A cache of one size. Ratios are of the parts of blocks that requests touched. */
        AdvisedSize: {
            /**
             * Format: double
             * @description How far `hit_ratio` may be off, because only some blocks are watched: two standard deviations.
             */
            error: number;
            /**
             * Format: double
             * @description Of reads.
             */
            hit_ratio: number;
            /**
             * Format: double
             * @description What LRU would hit that takes everything.
             */
            lru_hit_ratio: number;
            /**
             * Format: double
             * @description What a read would take on average, by what reads take here now, and 100 us for a hit on an SSD where there was none yet; null, if
             *     nothing is known of misses.
             */
            read_microseconds?: number | null;
            /** Format: int64 */
            size_bytes: number;
            /**
             * Format: double
             * @description To all SSDs together, both copies of what is mirrored, in a day in which the volume is watched. Null: too little time is known.
             */
            ssd_written_bytes_per_day?: number | null;
            /**
             * Format: double
             * @description Of writes, those that SSDs alone take before the host is answered. Null: there were none, or it is a read pool, which takes none.
             */
            write_hit_ratio?: number | null;
            /**
             * Format: double
             * @description How long the SSDs last at that rate, if this volume alone writes to them; null, if nobody said what they may be written.
             */
            years?: number | null;
        };
        /** @description A failure: a code for programs, one message for people that says what failed and on what, and what to do about it. */
        ApiError: {
            code: components["schemas"]["ApiErrorKind"];
            /** @description What to do; empty where the message says it. */
            hint?: string;
            message: string;
        };
        /**
         * @description What the caller can do about it.
         * @enum {string}
         */
        ApiErrorKind: "invalid" | "not-found" | "refused" | "in-use" | "unauthenticated" | "forbidden" | "cancelled" | "unsupported" | "device" | "corrupt" | "other-machine" | "full" | "unavailable" | "internal";
        /** @description Takes the backing device of a fenced volume for the right one. */
        BackingAccept: {
            /** @description Although what is on it speaks against it. */
            force?: boolean;
        };
        /** @description What speaks for and against a backing device's being the one that a pool has on record, and as it was left. */
        BackingEvidence: {
            /** @description What speaks against it. Empty: nothing does. */
            against: string;
            /** Format: int64 */
            dirty_bytes: number;
            /** @description The volume serves nothing, because its backing device is taken for another one. */
            fenced: boolean;
            /** @description First bytes of the fingerprint pages that are not as they were. */
            fingerprints_changed: number[];
            /**
             * Format: int64
             * @description Fingerprint pages that are as they were.
             */
            fingerprints_matching: number;
            /**
             * Format: int64
             * @description Of them, those that are not all zeroes: blank devices are alike.
             */
            fingerprints_telling: number;
            /**
             * Format: int64
             * @description Fingerprint pages that hosts may have written to since: they say nothing.
             */
            fingerprints_unsettled: number;
            identity: string;
            /** @description What the device was called when it was seen last. */
            identity_before: string;
            /** @description More than its name speaks against it: it is accepted with `force` only. */
            needs_force: boolean;
            /** @description Null: the two names cannot be compared. */
            same_identity?: boolean | null;
            /** Format: int64 */
            size_bytes: number;
            /** Format: int64 */
            size_bytes_before: number;
            /** @description Whether it was written to since the last clean stop; null where that cannot be told. */
            written?: boolean | null;
        };
        /** @description `PUT /api/v1/volumes/{name}/cache` */
        CacheEnable: {
            pool: string;
        };
        /**
         * @description How well the cache of a volume does what it is for; best first.
         * @enum {string}
         */
        CacheHealth: "optimal" | "partially-optimal" | "degraded" | "failed";
        /**
         * @description What the cache of a volume is doing.
         * @enum {string}
         */
        CacheState: "online" | "rebuilding" | "flushing" | "offline";
        /** @description `POST` of a path that ends with `/plan`: it could be done now. Nothing was changed. */
        ChangePlan: {
            memory?: null | components["schemas"]["MemoryPlan"];
            /** @description What is to be known before it is done. */
            warnings: string[];
        };
        /** @description Something that is not as it should be. */
        Condition: {
            /** @description What to do about it. */
            action: string;
            /**
             * Format: int64
             * @description How often it happened; 1 for what is a state.
             */
            count: number;
            /** @description How bad it is: never `good`. */
            health: components["schemas"]["Health"];
            kind: components["schemas"]["ConditionKind"];
            /**
             * Format: int64
             * @description When it was last seen to happen.
             */
            latest_unix_ms: number;
            /** @description The path of an SSD; empty otherwise. */
            path: string;
            /** @description The pool that an SSD is in. */
            pool?: string | null;
            /** @description What is wrong, in one line. */
            reason: string;
            /**
             * Format: int64
             * @description When it began, as far as the daemon knows, in milliseconds since 1970.
             */
            since_unix_ms: number;
            /** @description Whom it concerns. */
            subject: components["schemas"]["Subject"];
        };
        /**
         * @description What is not as it should be.
         * @enum {string}
         */
        ConditionKind: "pool" | "ssd" | "volume" | "host-errors" | "state-directory" | "record-unreadable" | "records-set-aside" | "record-outdated" | "events" | "statistics" | "statistics-set-aside" | "ssd-writes" | "failures" | "guard" | "event-hook" | "web-hook" | "mail" | "log" | "certificate" | "connections-refused" | "socket-not-served" | "end-not-served" | "other-backing" | "second-writer" | "backings" | "daemon-id" | "growth" | "conversion" | "spare" | "spare-unusable" | "flush" | "removal" | "pool-not-opened" | "local-device" | "reload";
        /** @description `GET /api/v1/volumes/{name}/connect` */
        Connect: {
            addresses: components["schemas"]["ConnectAddress"][];
            volume: string;
        };
        /** @description One address at which hosts find the volume. */
        ConnectAddress: {
            /** @description Only hosts on this machine can use it. */
            local: boolean;
            snippets: components["schemas"]["Snippet"][];
            /** @description Clients need a certificate. */
            tls: boolean;
            /** @description As `nbd://192.0.2.1:10809/vol1`. */
            uri: string;
        };
        /** @enum {string} */
        ConnectKind: "nbd-client" | "qemu" | "libvirt" | "fstab";
        /** @description Since the daemon started. */
        DaemonCounters: {
            /**
             * Format: int64
             * @description Times that no connection of a host could be taken, for want of a file descriptor or memory.
             */
            accept_failures: number;
            /**
             * Format: int64
             * @description Connections of hosts that are gone, or that held memory which others waited for and did nothing.
             */
            connections_abandoned: number;
            /**
             * Format: int64
             * @description Connections of hosts that had not chosen a volume, and had to make room for others.
             */
            connections_made_room: number;
            /**
             * Format: int64
             * @description Connections of hosts that were refused, because there were as many as file descriptors allow.
             */
            connections_refused: number;
            /**
             * Format: int64
             * @description Events that could not be written to the state directory when they happened.
             */
            events_not_kept: number;
            /**
             * Format: int64
             * @description Lines of the log that could not be written.
             */
            log_lines_dropped: number;
            /**
             * Format: int64
             * @description Requests with a token that is not known, or without one where one is needed.
             */
            logins_refused: number;
            /**
             * Format: int64
             * @description Times that one of them did not take a notice.
             */
            notices_failed: number;
            /**
             * Format: int64
             * @description Events of which a target was told only how many there were.
             */
            notices_left_out: number;
            /**
             * Format: int64
             * @description Notices that a web hook or a mail server took.
             */
            notices_sent: number;
            /**
             * Format: int64
             * @description TLS handshakes that failed, of hosts and of administrators.
             */
            tls_handshakes_refused: number;
        };
        /** @description What a `DELETE` removed. */
        Deleted: {
            deleted: string;
        };
        /** @description Transfers of a device since its pool or volume was opened. */
        DeviceIo: {
            /** Format: int64 */
            read_bytes: number;
            /** Format: int64 */
            reads: number;
            /** Format: int64 */
            writes: number;
            /** Format: int64 */
            written_bytes: number;
        };
        /** @description A block device or an image file. */
        Disk: {
            kind: components["schemas"]["DiskKind"];
            /** @description Empty where the kernel does not know it; so are the next three. */
            manufacturer: string;
            model: string;
            /** @description The kernel's name, as `nvme0n1`; of an image file its file name. */
            name: string;
            /** @description It can be an SSD only by `force`, because it carries something. */
            needs_force: boolean;
            /** @description Why it cannot be the backing device of a volume now. Empty if it can. */
            not_as_backing: string;
            /** @description Why it cannot be an SSD of a pool now. Empty if it can. */
            not_as_ssd: string;
            /** @description What to name in a request: the most durable path there is. */
            path: string;
            /** @description Whether it turns; null for files and where the kernel does not know. */
            rotational?: boolean | null;
            serial: string;
            /** @description What it carries and would be lost: a file system, a partition table, a pool's label. Empty if nothing was found. */
            signature: string;
            /** Format: int64 */
            size_bytes: number;
            smart?: null | components["schemas"]["Smart"];
            /** @description `nvme`, `sata`, `sas`, `usb`, `virtio`, … */
            transport: string;
        };
        /** @enum {string} */
        DiskKind: "block-device" | "image-file";
        /**
         * @description `GET /api/v1/disks`: the block devices; with `?directory=PATH` the image files in that directory instead, for the role
         *     *admin* only.
         */
        DiskList: {
            disks: components["schemas"]["Disk"][];
        };
        /** @description A change of the state or the health of a pool, an SSD or a volume, or of the daemon itself. */
        Event: {
            /** Format: int64 */
            at_unix_ms: number;
            /** @description Who asked for it: a user of the daemon's machine, a token, the console; empty: nobody did. */
            by: string;
            /** @description Why, and what to do. May be empty. */
            cause: string;
            /** @description In a few words, as `health good → degraded`. */
            change: string;
            /**
             * Format: int64
             * @description Grows by one with each event, also over restarts.
             */
            id: number;
            /** @description What it is called where its name is none for people: the path of an SSD. Empty otherwise. */
            path?: string;
            /** @description The pool that the subject is in; of an SSD always there. */
            pool?: string | null;
            severity: components["schemas"]["Severity"];
            subject: components["schemas"]["Subject"];
        };
        /** @description `GET /api/v1/events?after=ID`: the events after that one, oldest first, a thousand at most. Without `after` the newest. */
        EventList: {
            events: components["schemas"]["Event"][];
            /**
             * Format: int64
             * @description The newest event that the daemon knows; 0 if there is none.
             */
            newest_id: number;
        };
        /** @description `GET /api/v1/volumes/{name}/explanation?offset=`: of the page in which this byte lies. */
        Explanation: {
            /** @description Reads of it are answered from memory. */
            in_memory: boolean;
            in_pool?: null | components["schemas"]["PagePlaces"];
            last_missed?: null | components["schemas"]["MissReason"];
            /** @description Whether a read of it would be answered by the cache, and from where, in words. */
            now: string;
            /**
             * Format: int64
             * @description Where the page begins.
             */
            page_offset: number;
            /** @description What would get it into the cache, in words; empty if it is there. */
            then: string;
            volume: string;
            would_miss?: null | components["schemas"]["MissReason"];
        };
        /**
         * @description How much of the backing device's time fills may take beside hosts.
         * @enum {string}
         */
        FetchRate: "low" | "medium" | "high";
        /**
         * @description `GET /api/v1/volumes/{name}/flush` and `GET /api/v1/pools/{name}/flush`: a flush that is under way. `DELETE` cancels it: writes
         *     are cached again.
         */
        Flush: {
            /**
             * Format: int64
             * @description Bytes that are still dirty.
             */
            dirty_bytes: number;
            /**
             * Format: int64
             * @description Bytes that were written to the backing devices since the flush began.
             */
            drained_bytes: number;
            /** Format: int64 */
            elapsed_seconds: number;
            /**
             * Format: int64
             * @description At the pace so far; null until there is a pace.
             */
            eta_seconds?: number | null;
            /** @description The volume or the pool. */
            name: string;
            purpose: components["schemas"]["FlushPurpose"];
        };
        /** @description The flush that was cancelled. */
        FlushCancelled: {
            /** @description False if none was under way. */
            changed: boolean;
            name: string;
        };
        /**
         * @description What follows when everything is clean.
         * @enum {string}
         */
        FlushPurpose: "disable-cache" | "delete-volume" | "delete-pool" | "convert-pool";
        /**
         * @description How much of the backing device's time cleaning may take beside hosts.
         * @enum {string}
         */
        FlushRate: "low" | "medium" | "high";
        /**
         * @description Best first.
         * @enum {string}
         */
        Health: "good" | "degraded" | "failed";
        /**
         * @description `GET /api/v1/history?subject=volume:NAME&from=&to=&points=`
         *
         *     `subject` is `pool:NAME`, `ssd:UUID` or `volume:NAME`, or `daemon`: all volumes and SSDs together; `from` and `to` are seconds
         *     since 1970 (by default the last four hours), `points` is at most 2000 (by default 480).
         */
        History: {
            averages: components["schemas"]["HistoryAverages"];
            /**
             * Format: int64
             * @description When the volume's cache was enabled last, as far as the history reaches: where its warm-up begins.
             */
            cache_enabled_unix_seconds?: number | null;
            current?: null | components["schemas"]["HistoryPoint"];
            /** Format: int64 */
            from_unix_seconds: number;
            points: components["schemas"]["HistoryPoint"][];
            /**
             * Format: int64
             * @description From one point to the next; a multiple of 30 s. Intervals without any sample are left out.
             */
            step_seconds: number;
            subject: components["schemas"]["Subject"];
            /** Format: int64 */
            to_unix_seconds: number;
        };
        /**
         * @description Averages over the time until now; null while there is no sample in it. `covered_seconds` of each says how much of that time
         *     was observed.
         */
        HistoryAverages: {
            day?: null | components["schemas"]["HistoryPoint"];
            month?: null | components["schemas"]["HistoryPoint"];
            week?: null | components["schemas"]["HistoryPoint"];
        };
        /**
         * @description What happened in one interval of time. A value that the subject does not have is null: only volumes have hits and
         *     latencies, only pools and SSDs have SSD I/O.
         *
         *     Gauges (`…_bytes`) are averages of the samples, rates are differences of counters over `covered_seconds`.
         */
        HistoryPoint: {
            /**
             * Format: int64
             * @description The end of the interval.
             */
            at_unix_seconds: number;
            /** Format: double */
            backing_read_bytes_per_second?: number | null;
            /** Format: double */
            backing_reads_per_second?: number | null;
            /** Format: double */
            backing_writes_per_second?: number | null;
            /** Format: double */
            backing_written_bytes_per_second?: number | null;
            /** Format: double */
            cache_used_bytes?: number | null;
            /** Format: double */
            cleaned_bytes_per_second?: number | null;
            /**
             * Format: int64
             * @description How much of the interval was observed: the daemon may have been down.
             */
            covered_seconds: number;
            /** Format: double */
            dirty_bytes?: number | null;
            /** Format: double */
            evicted_blocks_per_second?: number | null;
            /**
             * Format: double
             * @description `hits` / `requests`, 0 to 1; null without requests.
             */
            hit_ratio?: number | null;
            /**
             * Format: int64
             * @description Reads answered by the cache alone.
             */
            hits?: number | null;
            /** Format: double */
            memory_hits_per_second?: number | null;
            /** Format: double */
            missed_below_threshold_per_second?: number | null;
            /** Format: double */
            missed_degraded_per_second?: number | null;
            /** Format: double */
            missed_evicted_per_second?: number | null;
            /** Format: double */
            missed_fetch_rate_per_second?: number | null;
            /** Format: double */
            missed_first_touch_per_second?: number | null;
            /** Format: double */
            missed_no_room_per_second?: number | null;
            /** Format: double */
            missed_off_per_second?: number | null;
            /** Format: double */
            missed_overwritten_per_second?: number | null;
            /** Format: double */
            missed_share_per_second?: number | null;
            /** Format: double */
            missed_stream_per_second?: number | null;
            /** Format: double */
            missed_wear_limit_per_second?: number | null;
            /** Format: int64 */
            misses?: number | null;
            /** Format: double */
            populated_bytes_per_second?: number | null;
            /** Format: double */
            read_bytes_per_second?: number | null;
            read_latency?: null | components["schemas"]["LatencyPercentiles"];
            /** Format: double */
            reads_per_second?: number | null;
            /**
             * Format: int64
             * @description Reads; `hits` + `misses` = `requests`.
             */
            requests?: number | null;
            /** Format: double */
            ssd_read_bytes_per_second?: number | null;
            /** Format: double */
            ssd_reads_per_second?: number | null;
            /** Format: double */
            ssd_writes_per_second?: number | null;
            /** Format: double */
            ssd_written_bytes_per_second?: number | null;
            /** Format: double */
            write_bytes_per_second?: number | null;
            /** Format: double */
            write_cache_used_bytes?: number | null;
            /** Format: int64 */
            write_hits?: number | null;
            write_latency?: null | components["schemas"]["LatencyPercentiles"];
            /**
             * Format: int64
             * @description Writes that hosts made, and those of them that were acknowledged from the SSDs alone.
             */
            writes?: number | null;
            /** Format: double */
            writes_per_second?: number | null;
        };
        /** @description `DELETE /api/v1/volumes/{name}/hold` and `DELETE /api/v1/pools/{name}/hold` */
        HoldReleased: {
            /** @description False if nothing was held. */
            changed: boolean;
            name: string;
        };
        /** @description A connection of a host. */
        HostClient: {
            /**
             * Format: int64
             * @description Requests that it waits for.
             */
            in_flight: number;
            /** @description Its address, or the process behind a unix socket. */
            peer: string;
            protocol: components["schemas"]["HostProtocol"];
            /**
             * Format: int64
             * @description When it connected, in milliseconds since 1970.
             */
            since_unix_ms: number;
        };
        /**
         * @description The way in which a host uses a volume.
         * @enum {string}
         */
        HostProtocol: "nbd" | "nbd-tls" | "local-device";
        /**
         * @description The preset by which a pool was made.
         * @enum {string}
         */
        IoType: "database" | "file-system" | "web-service" | "custom";
        /** @description Of requests, from their arrival to their answer; each is at most 13 % above the true value. */
        LatencyPercentiles: {
            /** Format: double */
            p50_microseconds: number;
            /** Format: double */
            p95_microseconds: number;
            /** Format: double */
            p99_microseconds: number;
        };
        /** @description `GET /api/v1/volumes/{name}/whatif` */
        LiveWhatIf: {
            /** Format: int64 */
            from_unix_seconds: number;
            pools: components["schemas"]["LiveWhatIfPool"][];
            /** Format: int64 */
            to_unix_seconds: number;
            /** @description Commands that try pools of which no answer is known with what hosts ask from now on: one for each setup, with all sizes. */
            trials: string[];
            volume: string;
            window: components["schemas"]["AdviceWindow"];
        };
        /** @description What a pool would have done. */
        LiveWhatIfPool: {
            answer?: null | components["schemas"]["AdvisedSize"];
            setup: components["schemas"]["AdvisedPool"];
            /** Format: int64 */
            size_bytes: number;
            unanswered: string;
        };
        /** @description A volume as a block device of the daemon's own machine. */
        LocalDevice: {
            /** @description The daemon is connected to it. Else its requests wait. */
            connected: boolean;
            /** @description The block device behind that; null: it is not there now. */
            device?: string | null;
            /** @description The kernel's driver. */
            driver: string;
            /** @description Where programs find it, whatever number it has. */
            path: string;
        };
        /** @description The newest copy of a page, in the write log. */
        LogCopy: {
            /** @description The backing device does not have it yet. */
            dirty: boolean;
            /** Format: int64 */
            row: number;
            /** @description The SSDs that have it and can be read. */
            ssds: string[];
            /** @description No copy of it can be read now. */
            unavailable: boolean;
            /** @description It reads as zeroes. */
            zeroes: boolean;
        };
        /** @description `POST /api/v1/pools/{name}/losses/accept`: from now on it is what the backing devices hold. */
        LossAccepted: {
            /** Format: int64 */
            accepted_bytes: number;
        };
        /** @description `GET /api/v1/pools/{name}/losses`: what answers errors until an SSD with it is back, it is written or its loss accepted. */
        LossList: {
            /** @description Only volumes of which something is unavailable. */
            volumes: components["schemas"]["VolumeLoss"][];
        };
        /** @description Consecutive bytes. */
        LostExtent: {
            /** Format: int64 */
            length: number;
            /** Format: int64 */
            offset: number;
        };
        /** @description `GET /api/v1/memory-cache` */
        MemoryCache: {
            /**
             * Format: int64
             * @description What it may take now: less than its size while memory is short.
             */
            allowed_bytes: number;
            /**
             * Format: int64
             * @description Its size by the configuration, which it has unless it was set to another one.
             */
            configured_bytes: number;
            /**
             * Format: int64
             * @description The size that it was set to, which is more than `size_bytes` if the machine has too little memory for it; null: none was.
             */
            set_bytes?: number | null;
            /**
             * Format: int64
             * @description What it may take when memory is not short; 0: it is off.
             */
            size_bytes: number;
            /**
             * Format: int64
             * @description What the pages in it take now.
             */
            used_bytes: number;
        };
        /** @description The memory cache, and whether the request changed it. */
        MemoryCacheChange: {
            changed: boolean;
            memory_cache: components["schemas"]["MemoryCache"];
        };
        /** @description `PUT /api/v1/memory-cache` */
        MemoryCacheSet: {
            /**
             * Format: int64
             * @description 0: off. Null or left out: what the configuration says.
             */
            size_bytes?: number | null;
        };
        /** @description What a change takes of the memory that the tables of all pools may have. */
        MemoryPlan: {
            /**
             * Format: int64
             * @description What the tables of all pools need now, with every slot in use.
             */
            in_use_bytes: number;
            /** Format: int64 */
            limit_bytes: number;
            /**
             * Format: int64
             * @description So much more than now.
             */
            more_bytes: number;
        };
        /** @description So many of one thing, each with so many bytes of memory. */
        MemoryTerm: {
            /**
             * Format: int64
             * @description `count` times `bytes_each`, rounded up.
             */
            bytes: number;
            /** Format: double */
            bytes_each: number;
            /** Format: int64 */
            count: number;
        };
        /** @description What the memory that a pool needs adds up from, with every slot in use and as much dirty as may be. */
        MemoryTerms: {
            /** @description Checksums of these pages. */
            checksums: components["schemas"]["MemoryTerm"];
            /** @description Pages that may be dirty at once, wherever they lie: the worst case. */
            dirty_pages: components["schemas"]["MemoryTerm"];
            /** @description Pages of slots. */
            slot_pages: components["schemas"]["MemoryTerm"];
            slots: components["schemas"]["MemoryTerm"];
        };
        /**
         * @description Why a read was not answered from the cache.
         * @enum {string}
         */
        MissReason: "first-touch" | "below-threshold" | "evicted" | "overwritten" | "stream" | "no-room" | "fetch-rate" | "share" | "wear-limit" | "degraded" | "off";
        /** @description What a target answered. */
        NoticeAnswer: {
            address: string;
            /** @description What it said, or why it took none. */
            answer: string;
            /** @description It took the notice. */
            ok: boolean;
            /** @description `web hook` or `e-mail`. */
            target: string;
        };
        /** @description `POST /api/v1/notices/test`: each target was sent a notice that this is a test, once. */
        NoticeTest: {
            targets: components["schemas"]["NoticeAnswer"][];
        };
        /** @description `GET /api/v1/operations/{id}`: an operation that is under way, or that ended not long ago. */
        Operation: {
            /** @description Who asked for it; empty: the daemon began it by itself. */
            asked_by: string;
            /** @description Why it began, where nobody asked for it: as a scrub that goes on after a start; null: nothing is told. */
            began_because?: string | null;
            /** Format: int64 */
            began_unix_ms: number;
            /** @description Whether `DELETE` ends it before it is done. */
            cancellable: boolean;
            /** Format: int64 */
            done_bytes: number;
            /** Format: int64 */
            elapsed_seconds: number;
            /** Format: int64 */
            ended_unix_ms?: number | null;
            error?: null | components["schemas"]["ApiError"];
            /**
             * Format: int64
             * @description At the pace so far; null until there is a pace, and when it has ended.
             */
            eta_seconds?: number | null;
            /**
             * Format: int64
             * @description Counts from 1 since the daemon started.
             */
            id: number;
            kind: components["schemas"]["OperationKind"];
            /**
             * Format: int64
             * @description On average since it began.
             */
            rate_bytes_per_second: number;
            state: components["schemas"]["OperationState"];
            subject: components["schemas"]["Subject"];
            /** Format: int64 */
            total_bytes: number;
            /** @description What keeps it from going on; null: nothing. */
            waits_for?: string | null;
        };
        /** @description `DELETE /api/v1/operations/{id}` */
        OperationCancelled: {
            /** @description False if it had ended before. */
            changed: boolean;
            operation: components["schemas"]["Operation"];
        };
        /** @enum {string} */
        OperationKind: "disable-cache" | "delete-volume" | "delete-pool" | "convert-pool" | "create-pool" | "add-ssds" | "add-spares" | "scrub" | "remove-ssds" | "rebuild" | "flush-volume" | "flush-pool";
        /** @description `GET /api/v1/operations`: those that are under way, then the last ones that ended, newest first. */
        OperationList: {
            operations: components["schemas"]["Operation"][];
        };
        /**
         * @description `POST /api/v1/operations`: begins a removal, a scrub or a flush and answers at once, where a `DELETE` of the volume, its cache, the
         *     pool or its SSDs is answered when all is done.
         */
        OperationStart: {
            /** @description Of removals, as in [`Removal`](crate::Removal). */
            force?: boolean;
            /** @description Of flushes: from the beginning on nothing new stays dirty, until a `DELETE` of the volume's or pool's `hold`. */
            hold?: boolean;
            /** @description `disable-cache`, `delete-volume`, `delete-pool`, `remove-ssds`, `scrub`, `flush-volume` or `flush-pool`. */
            kind: components["schemas"]["OperationKind"];
            lose_data?: boolean;
            /** @description The volume or the pool. */
            name: string;
            /** @description Of `remove-ssds`: paths or UUIDs. */
            ssds?: string[];
        };
        /** @enum {string} */
        OperationState: "running" | "done" | "failed" | "cancelled";
        /** @description What a pool has of a page. */
        PagePlaces: {
            /**
             * Format: int32
             * @description The volume's block in which it lies, by its number.
             */
            block: number;
            fill_runs: boolean;
            /** @description The block waits to be read into the cache, or is being read. */
            fill_waits: boolean;
            hindrance?: null | components["schemas"]["MissReason"];
            in_log?: null | components["schemas"]["LogCopy"];
            in_slot?: null | components["schemas"]["SlotCopy"];
            pool: string;
            /**
             * Format: int32
             * @description How often it has to be until it is populated.
             */
            populate_on_read: number;
            /** Format: int32 */
            populate_on_write: number;
            /**
             * Format: int32
             * @description How often the block was read and missed of late, and written around the cache: 0 to 3.
             */
            reads_counted: number;
            /** @description The policy remembers that it evicted the block. */
            was_evicted: boolean;
            /** Format: int32 */
            writes_counted: number;
        };
        /**
         * @description What is evicted first.
         * @enum {string}
         */
        PolicyKind: "s3-fifo" | "lru" | "fifo" | "2q" | "auto";
        /** @description A pool as it is now. */
        Pool: {
            /** @description What to do about it. Empty when there is nothing to do. */
            action?: string;
            /** Format: int64 */
            block_size_bytes: number;
            /**
             * Format: int64
             * @description Bytes of pages that its SSDs hold when they are full of clean data. Another only after an SSD came or left, or a
             *     conversion.
             */
            capacity_bytes: number;
            /**
             * Format: int64
             * @description What of that clean data has however much is dirty.
             */
            capacity_min_bytes: number;
            checksums: boolean;
            /** Format: int32 */
            dirty_age_max_seconds: number;
            /** Format: int32 */
            dirty_watermark_percent: number;
            /** Format: int64 */
            epoch: number;
            fetch_rate: components["schemas"]["FetchRate"];
            flush_rate: components["schemas"]["FlushRate"];
            health: components["schemas"]["Health"];
            io_type: components["schemas"]["IoType"];
            /**
             * Format: int64
             * @description Memory that its tables take now.
             */
            memory_bytes: number;
            name: string;
            policy: components["schemas"]["PolicyKind"];
            /** @description The policy that is followed now: the same, but never `auto`. */
            policy_followed: components["schemas"]["PolicyKind"];
            /** @description Why it did so the last time. Empty if it never did. */
            policy_reason: string;
            /**
             * Format: int64
             * @description How often `auto` has followed another one since the pool was opened or it was chosen.
             */
            policy_switches: number;
            /** Format: int32 */
            populate_on_read: number;
            /** Format: int32 */
            populate_on_write: number;
            /** @description That reached the limit: nothing more is populated. */
            populating_stopped: boolean;
            /** @description Why it is not good, not online, or does not do all that it could. Empty otherwise. */
            reason: string;
            rebuild?: null | components["schemas"]["Progress"];
            /** @description What the last start found. */
            recovery: string;
            scrub?: null | components["schemas"]["Scrub"];
            /**
             * Format: int64
             * @description The slots that the capacity is made of; those whose place the write log takes now are never in use.
             */
            slots: number;
            /**
             * Format: int64
             * @description Of them, those that were filled lately: if the daemon were killed now, the next one would read them again.
             */
            slots_unpublished: number;
            /** Format: int64 */
            slots_used: number;
            spares: components["schemas"]["Spare"][];
            /**
             * Format: int64
             * @description Once so much was written to all SSDs together within 24 hours, nothing more is populated; null: no limit.
             */
            ssd_writes_per_day_bytes?: number | null;
            /**
             * Format: int64
             * @description What was written to them within the last 24 hours, by the hour.
             */
            ssd_written_day_bytes: number;
            ssds: components["schemas"]["Ssd"][];
            state: components["schemas"]["PoolState"];
            type: components["schemas"]["PoolKind"];
            /**
             * Format: int64
             * @description Bytes of pages that it holds, clean or dirty, each counted once: of all its volumes together.
             */
            used_bytes: number;
            /** @description 32 hexadecimal digits; empty while the pool is not open. */
            uuid: string;
            volumes: string[];
            /** @description What is not as safe as it could be, although the pool is good. */
            warnings: string[];
            write_log?: null | components["schemas"]["WriteLog"];
        };
        /** @description A pool, and whether the request changed it. */
        PoolChange: {
            changed: boolean;
            pool: components["schemas"]["Pool"];
        };
        /**
         * @description `POST /api/v1/pools/{name}/conversion`: what cannot change online is changed by flushing the pool and making it anew in place;
         *     at least one of the first three. `POST …/conversion/plan` answers what the pool would be like, and changes nothing.
         */
        PoolConvert: {
            /** @description Make a read-write pool of block devices that share a physical disk: both copies may be lost with it. */
            allow_same_disk?: boolean;
            /**
             * Format: int64
             * @description A power of two from 64 KiB to 4 MiB.
             */
            block_size_bytes?: number | null;
            /** @description Page checksums of slots. */
            checksums?: boolean | null;
            type?: null | components["schemas"]["PoolKind"];
        };
        /** @description `POST /api/v1/pools` and `POST /api/v1/pools/plan`: the pool to make. What is left out comes from the preset. */
        PoolCreate: {
            /** @description Make a read-write pool of block devices that share a physical disk: both copies may be lost with it. */
            allow_same_disk?: boolean;
            /**
             * Format: int64
             * @description A power of two from 64 KiB to 4 MiB; custom pools only.
             */
            block_size_bytes?: number | null;
            /**
             * @description Page checksums of slots; on if left out. Without them a pool needs less memory, and a cached page that rots on an SSD
             *     without a read error is not noticed. Dirty data always has them.
             */
            checksums?: boolean | null;
            /** @description Use the SSDs although they carry a foreign signature, whose content is lost. */
            force?: boolean;
            io_type: components["schemas"]["IoType"];
            name: string;
            policy?: null | components["schemas"]["PolicyKind"];
            /** Format: int32 */
            populate_on_read?: number | null;
            /** Format: int32 */
            populate_on_write?: number | null;
            /** @description Absolute paths of block devices or image files. */
            ssds: string[];
            type: components["schemas"]["PoolKind"];
        };
        /** @description `POST /api/v1/pools/import`: a pool whose SSDs are at these paths. */
        PoolImport: {
            /** @description Accept the loss of the dirty data of which no copy is left, and the proof that what is left is the newest. */
            accept_loss?: boolean;
            /** @description Go on although SSDs of the pool are not among them: those leave the pool for good. */
            accept_missing?: boolean;
            /** @description Take the pool although another machine used it last and was not stopped cleanly. Refused while that one uses it. */
            force?: boolean;
            ssds: string[];
        };
        /**
         * @description What a pool may hold: clean data only, or mirrored dirty data too.
         * @enum {string}
         */
        PoolKind: "read" | "read-write";
        /** @description `GET /api/v1/pools` */
        PoolList: {
            pools: components["schemas"]["Pool"][];
        };
        /** @description What a pool would be like (`pool create --dry-run`). */
        PoolPlan: {
            /** Format: int64 */
            block_size_bytes: number;
            /**
             * Format: int64
             * @description SSD files that are sparse and are written in full before use: their bytes.
             */
            bytes_to_write_first: number;
            /**
             * Format: int64
             * @description Bytes of pages that its SSDs hold when they are full of clean data.
             */
            capacity_bytes: number;
            /**
             * Format: int64
             * @description What of that clean data has however much is dirty; the same in a read pool.
             */
            capacity_min_bytes: number;
            checksums: boolean;
            /**
             * Format: int64
             * @description Bytes that hosts may have dirty at once; 0 in a read pool.
             */
            dirty_capacity_bytes: number;
            /**
             * Format: int64
             * @description The part of `memory_bytes` that is for dirty data, in the worst case: random writes of 4 KiB.
             */
            dirty_memory_bytes: number;
            io_type: components["schemas"]["IoType"];
            /**
             * Format: int64
             * @description Memory for its tables when every slot is in use and all that may be dirty is.
             */
            memory_bytes: number;
            /**
             * Format: int64
             * @description What the tables of the other pools take.
             */
            memory_in_use_bytes: number;
            /**
             * Format: int64
             * @description What the tables of all pools may take together.
             */
            memory_limit_bytes: number;
            /** @description The terms of `memory_bytes`, which is their sum. */
            memory_terms: components["schemas"]["MemoryTerms"];
            name: string;
            policy: components["schemas"]["PolicyKind"];
            /** Format: int32 */
            populate_on_read: number;
            /** Format: int32 */
            populate_on_write: number;
            /** Format: int64 */
            segment_bytes: number;
            /** Format: int64 */
            slots: number;
            /** @description Per SSD, in the order of the request: bytes of cached pages it can hold at most. */
            ssd_capacity_bytes: number[];
            type: components["schemas"]["PoolKind"];
            warnings: string[];
        };
        /** @description `PATCH /api/v1/pools/{name}`: the settings to change. */
        PoolSet: {
            /**
             * Format: int32
             * @description Dirty data older than this is cleaned whatever hosts do: 1 s to 30 days.
             */
            dirty_age_max_seconds?: number | null;
            /**
             * Format: int32
             * @description Cleaning goes on beside hosts from this share of the dirty capacity on: 1 to 90.
             */
            dirty_watermark_percent?: number | null;
            fetch_rate?: null | components["schemas"]["FetchRate"];
            flush_rate?: null | components["schemas"]["FlushRate"];
            io_type?: null | components["schemas"]["IoType"];
            policy?: null | components["schemas"]["PolicyKind"];
            /** Format: int32 */
            populate_on_read?: number | null;
            /** Format: int32 */
            populate_on_write?: number | null;
            /**
             * Format: int64
             * @description Once so much was written to all SSDs together within 24 hours, nothing more is populated: 1 MiB or more, or 0 for
             *     no limit.
             */
            ssd_writes_per_day_bytes?: number | null;
        };
        /** @description Answer of `PATCH /api/v1/pools/{name}`. */
        PoolSettingsChange: {
            changed: boolean;
            pool: components["schemas"]["Pool"];
            /** @description What belongs to the settings and cannot change online, and what changes it. */
            warnings: string[];
        };
        /**
         * @description What a pool is doing.
         * @enum {string}
         */
        PoolState: "online" | "rebuilding" | "flushing" | "offline";
        /** @description What a pool is to promise a volume. */
        PoolVolume: {
            cache_max?: null | components["schemas"]["Share"];
            cache_min?: null | components["schemas"]["Share"];
            name: string;
        };
        /** @description `POST /api/v1/pools/{name}/volumes/plan`: which volumes a pool shall have, to be looked at before any of them is moved or changed. */
        PoolVolumes: {
            /** @description Volumes that leave the pool before. */
            leave?: string[];
            /** @description Volumes that it has then; others stay as they are. */
            stay: components["schemas"]["PoolVolume"][];
        };
        /** @description How far an SSD is emptied, or how far copies are made anew. */
        Progress: {
            /**
             * Format: int64
             * @description At the pace so far; 0 before there is one.
             */
            bytes_per_second: number;
            /** Format: int64 */
            done_bytes: number;
            /**
             * Format: int64
             * @description At that pace; null until there is one.
             */
            eta_seconds?: number | null;
            /** Format: int64 */
            total_bytes: number;
        };
        /** @description Of the requests that were answered in the last five seconds; null where there were none. */
        RecentLatency: {
            reads?: null | components["schemas"]["LatencyPercentiles"];
            writes?: null | components["schemas"]["LatencyPercentiles"];
        };
        /** @description What was recorded of a volume since it was asked last. */
        Recorded: {
            /**
             * Format: int64
             * @description Requests that found no room since then, and are lost.
             */
            dropped: number;
            /** @description Nothing is recorded under this id any more: it was not asked for in time, or the volume was opened anew. */
            ended: boolean;
            /** @description A line `time_us,op,offset_bytes,length_bytes` for each request, the time since the recording began, `op` R or W. */
            requests: string;
        };
        /** @description A recording begins or ends. */
        Recording: {
            /**
             * Format: int64
             * @description What the requests that take from it, and end it, name it by: a number of 53 bits.
             */
            id: number;
            recording: boolean;
        };
        /**
         * @description The body of a `DELETE` of a volume, of its cache, or of a pool; it may be left out.
         *
         *     Dirty data is written to the backing device first; the request is answered when all is done, and goes on if its client
         *     hangs up. A second request of the same kind joins it.
         */
        Removal: {
            /**
             * @description Do it although hosts use the volume, whom the refusal names, and do not flush: dirty data is lost. Refused, with the
             *     number of bytes, unless `lose_data` is set too or nothing is dirty.
             */
            force?: boolean;
            /** @description The administrator knows what is lost. */
            lose_data?: boolean;
        };
        /**
         * @description What a client may do.
         * @enum {string}
         */
        Role: "view" | "admin";
        /** @description What the scrub that runs, or the last one, has found; one that goes on after a start, with what it found before. */
        Scrub: {
            /**
             * Format: int64
             * @description Pages that could not be read or were not what was stored, by copy.
             */
            bad_pages: number;
            /**
             * Format: int64
             * @description Bytes read and compared, of about how many: both copies of what lies in the write log count.
             */
            checked_bytes: number;
            /**
             * Format: int64
             * @description Of them, taken out of the cache, to be read from the backing device again.
             */
            dropped_pages: number;
            /**
             * Format: int64
             * @description How long it took; 0 while it runs.
             */
            elapsed_seconds: number;
            /**
             * Format: int64
             * @description Null while it runs.
             */
            ended_unix_ms?: number | null;
            /**
             * Format: int64
             * @description Dirty pages of which no good copy is left: reads of them fail until they are overwritten.
             */
            lost_pages: number;
            /**
             * Format: int64
             * @description Of them, written again from the other copy.
             */
            repaired_pages: number;
            state: components["schemas"]["ScrubState"];
            /** Format: int64 */
            total_bytes: number;
            /**
             * Format: int64
             * @description When a scrub of the pool last came to its end, whatever became of later ones; null: none is known.
             */
            whole_ended_unix_ms?: number | null;
        };
        /**
         * @description See [`Scrub`].
         * @enum {string}
         */
        ScrubState: "running" | "finished" | "cancelled";
        /** @description `GET /api/v1/session`: whom the daemon takes the client for. */
        Session: {
            role: components["schemas"]["Role"];
            /** @description The name of the token; null for a client that needs none. */
            token?: string | null;
            version: string;
        };
        /** @enum {string} */
        Severity: "info" | "warning" | "error";
        /** @description A part of what a pool has: so many bytes, 1 MiB or more, or so many percent, 1 to 100. */
        Share: {
            /** Format: int64 */
            bytes: number;
        } | {
            /** Format: int32 */
            percent: number;
        };
        /** @description A slot that holds a block. */
        SlotCopy: {
            /** @description It has the page; if not, a host has written to the page since. */
            has_page: boolean;
            /** @description It is believed after a crash, too. */
            published: boolean;
            /**
             * Format: int32
             * @description Its number on that SSD.
             */
            slot: number;
            ssd: string;
        };
        /** @description What an SSD said of itself when it was asked last. A value that it does not know is null. */
        Smart: {
            /** @description What it warns of. Empty if nothing. */
            alert: string;
            /**
             * Format: int64
             * @description Bytes that the cache wrote to it over all starts, as far as the state directory remembers.
             */
            cache_written_bytes: number;
            /** Format: int64 */
            checked_at_unix_ms: number;
            /**
             * Format: int64
             * @description All that was ever written to it, by whomever.
             */
            drive_written_bytes?: number | null;
            /** @description Its own verdict: whether it expects to go on working. */
            passed?: boolean | null;
            /** Format: int64 */
            power_on_hours?: number | null;
            /** @description Why nothing is known, or not all: `smartctl` is not installed, the SSD is an image file, … Empty otherwise. */
            problem: string;
            /** Format: int32 */
            temperature_celsius?: number | null;
            /**
             * Format: int32
             * @description How much of the writes that it was made for it has taken; can pass 100.
             */
            wear_percent?: number | null;
            /**
             * Format: int64
             * @description When it will be worn out at the pace seen so far; null until its wear was seen to grow.
             */
            worn_out_at_unix_ms?: number | null;
        };
        /** @description A command or a piece of configuration, to be copied. */
        Snippet: {
            kind: components["schemas"]["ConnectKind"];
            /** @description Where it goes, and what must be there first. */
            note: string;
            text: string;
            /** @description As `Linux block device (nbd-client)`. */
            title: string;
        };
        /** @description A spare of a pool. */
        Spare: {
            path: string;
            /** @description It was there when the pool was opened. */
            present: boolean;
            /** @description Why it cannot take over. Empty if it can. */
            reason: string;
            /** Format: int64 */
            size_bytes: number;
            uuid: string;
        };
        /** @description An SSD of a pool. */
        Ssd: {
            /** @description What to do about it. Empty when there is nothing to do. */
            action?: string;
            /** @description The physical disk with which it fails, by a word that tells disks apart; empty: it is not known. */
            disk: string;
            evacuation?: null | components["schemas"]["Progress"];
            health: components["schemas"]["SsdHealth"];
            identity: components["schemas"]["SsdIdentity"];
            /** @description What the pool has had it do. */
            io: components["schemas"]["DeviceIo"];
            /** @description A start found that it had lost what it had flushed; on record until it is replaced or removed. */
            lost_writes: boolean;
            online: boolean;
            path: string;
            /**
             * Format: int64
             * @description Medium errors and checksum failures that hosts never saw.
             */
            read_errors: number;
            /** @description Why it is not online, or a warning. Empty if there is nothing to say. */
            reason: string;
            /** Format: int64 */
            size_bytes: number;
            /** Format: int64 */
            slots: number;
            /** Format: int64 */
            slots_used: number;
            smart: components["schemas"]["Smart"];
            state: components["schemas"]["SsdState"];
            uuid: string;
            /** Format: int64 */
            written_bytes: number;
        };
        /**
         * @description Of an SSD; the worst that holds.
         * @enum {string}
         */
        SsdHealth: "good" | "unknown" | "read-errors" | "error-alert" | "failed";
        /**
         * @description What an SSD is and where it is. Every text is empty where neither the kernel nor the drive says it; of an image file all
         *     are.
         */
        SsdIdentity: {
            enclosure: string;
            firmware: string;
            /** @description Of the link as it was negotiated, as `6.0 Gb/s` or `16.0 GT/s PCIe x4`. */
            link_speed: string;
            manufacturer: string;
            model: string;
            serial: string;
            slot: string;
            /** @description `nvme`, `sata`, `sas`, `usb`, `virtio`, … */
            transport: string;
        };
        /**
         * @description What an SSD of a pool is doing.
         * @enum {string}
         */
        SsdState: "online" | "rebuilding" | "flushing" | "silent" | "read-only" | "no-space" | "offline" | "missing" | "expelled";
        /** @description `POST /api/v1/pools/{name}/ssds` and `…/spares`: SSDs to take in. All of them, or none. */
        SsdsAdd: {
            /** @description Use block devices that share a physical disk with others of a read-write pool: both copies may be lost with it. */
            allow_same_disk?: boolean;
            /** @description Use them although they carry a foreign signature, whose content is lost. */
            force?: boolean;
            /** @description Absolute paths of block devices or image files. */
            ssds: string[];
        };
        /**
         * @description `DELETE /api/v1/pools/{name}/ssds` and `…/spares`: SSDs to let go. What is dirty on them is copied to the others first; the
         *     request is answered when all is done, and goes on if its client hangs up. `DELETE …/removal` ends it.
         */
        SsdsRemove: {
            /** @description Paths or UUIDs. */
            ssds: string[];
        };
        /** @description `GET /api/v1/stats`: counters of all volumes, taken at one moment. A rate is the difference of two answers. */
        Stats: {
            /**
             * Format: int64
             * @description The moment, in nanoseconds of the daemon's monotonic clock.
             */
            at_ns: number;
            /** @description Of all volumes together. */
            recent_latency: components["schemas"]["RecentLatency"];
            volumes: components["schemas"]["VolumeCounters"][];
        };
        /** @description `GET /api/v1/status` */
        Status: {
            /** @description All that is not as it should be: what is bad, since when, and what to do. Worst first. */
            conditions: components["schemas"]["Condition"][];
            /** @description What the daemon counts of itself. */
            counters: components["schemas"]["DaemonCounters"];
            /**
             * Format: int64
             * @description Data at risk: bytes acknowledged to hosts and not yet on the backing devices, of all pools.
             */
            dirty_bytes: number;
            /** @description Caches that are being flushed so that they can be taken away. */
            flushes: components["schemas"]["Flush"][];
            /** @description The worst of all conditions; good without any. */
            health: components["schemas"]["Health"];
            /** @description Pages in memory, of all volumes. */
            memory_cache: components["schemas"]["MemoryCache"];
            /**
             * Format: int64
             * @description What the tables of the pools take.
             */
            memory_in_use_bytes: number;
            /** Format: int64 */
            memory_limit_bytes: number;
            /** @description Where hosts connect, one URI for each listener. */
            nbd: string[];
            /**
             * Format: int64
             * @description How long the oldest of them has been dirty, counted anew at a start; null if nothing is dirty.
             */
            oldest_dirty_seconds?: number | null;
            /** Format: int32 */
            pid: number;
            pools: components["schemas"]["Pool"][];
            /** @description One line for each condition, and for each warning. */
            reasons: string[];
            state_directory: string;
            /**
             * Format: int32
             * @description Threads that serve hosts.
             */
            threads: number;
            /** Format: int64 */
            uptime_s: number;
            version: string;
            volumes: components["schemas"]["Volume"][];
            /** @description What takes long and is being done now. */
            work: components["schemas"]["Work"][];
        };
        /** @description Something with a name of its own. */
        Subject: {
            kind: components["schemas"]["SubjectKind"];
            /** @description Of a pool or a volume; of an SSD its UUID, 32 hexadecimal digits; empty for the daemon. */
            name: string;
        };
        /** @enum {string} */
        SubjectKind: "daemon" | "pool" | "ssd" | "volume";
        /** @description A token as it is listed. */
        Token: {
            /** Format: int64 */
            created_unix_ms: number;
            name: string;
            role: components["schemas"]["Role"];
        };
        /** @description `POST /api/v1/tokens` */
        TokenCreate: {
            /** @description 1 to 64 characters of `A-Z a-z 0-9 - _ .` */
            name: string;
            role: components["schemas"]["Role"];
        };
        /** @description A new token: the only time that it is shown. The daemon keeps a hash of it. */
        TokenCreated: {
            name: string;
            role: components["schemas"]["Role"];
            /** @description Goes into the header `Authorization: Bearer TOKEN`. */
            token: string;
        };
        /** @description `GET /api/v1/tokens` */
        TokenList: {
            tokens: components["schemas"]["Token"][];
        };
        /** @description A volume as it is now. */
        Volume: {
            /** @description What to do about it. Empty when there is nothing to do. */
            action?: string;
            /** @description What would be better, although nothing is wrong: a name of its backing device that stays its own. Mostly empty. */
            advice: string;
            backing: string;
            /** @description The backing device is a model of one: its speed is not that of a real array. */
            backing_emulated: boolean;
            /** @description What the backing device has had to do. */
            backing_io: components["schemas"]["DeviceIo"];
            cache_health?: null | components["schemas"]["CacheHealth"];
            cache_max?: null | components["schemas"]["Share"];
            cache_min?: null | components["schemas"]["Share"];
            cache_state?: null | components["schemas"]["CacheState"];
            /**
             * Format: int64
             * @description Bytes of its pages that its pool holds, clean or dirty, each counted once. What its pool's volumes use adds up to what
             *     the pool has in use.
             */
            cache_used_bytes: number;
            /** @description Hosts that are connected to it. */
            clients: components["schemas"]["HostClient"][];
            /**
             * Format: int64
             * @description Data at risk: bytes acknowledged to hosts and not yet on the backing device; zeroes too, which take no place.
             */
            dirty_bytes: number;
            dirty_cap?: null | components["schemas"]["Share"];
            /** @description Where its writes go now: around the cache unless its pool is a read-write pool. */
            effective_write_mode: components["schemas"]["WriteMode"];
            /** @description Of the volume with its cache. */
            health: components["schemas"]["Health"];
            local?: null | components["schemas"]["LocalDevice"];
            /** Format: int32 */
            logical_block_bytes: number;
            /**
             * Format: int64
             * @description Of them, what is unavailable: reads of it fail until an SSD that has it is back, it is written again or its loss accepted.
             */
            lost_bytes?: number;
            /** @description Whether pages that are read again are kept in memory. */
            memory_cache: boolean;
            name: string;
            /** @description Where hosts find it, one URI for each listener. */
            nbd: string[];
            /**
             * Format: int64
             * @description How long the oldest of what is dirty has been so, counted anew at a start; null if nothing is dirty.
             */
            oldest_dirty_seconds?: number | null;
            /** @description The pool that caches it; null: none. */
            pool?: string | null;
            pool_type?: null | components["schemas"]["PoolKind"];
            /** @description Whether streams that bypass the cache are read into memory before hosts ask for them, where the memory cache is on. */
            read_ahead: boolean;
            /** @description Whether reads populate the cache and are answered from it. */
            read_cache: boolean;
            /**
             * Format: int64
             * @description A read stream longer than this bypasses the cache; null: never.
             */
            read_cutoff_bytes?: number | null;
            read_only: boolean;
            /** @description Why it is not good. Empty when good. */
            reason: string;
            /** Format: int64 */
            size_bytes: number;
            state: components["schemas"]["VolumeState"];
            stats: components["schemas"]["VolumeStats"];
            /**
             * Format: int64
             * @description Bytes at the end of the backing device that hosts do not see, because they are no whole block.
             */
            unserved_bytes: number;
            /**
             * Format: int64
             * @description Of them, what lies in the write log.
             */
            write_cache_used_bytes: number;
            /**
             * Format: int64
             * @description A write stream longer than this bypasses the cache; null: never.
             */
            write_cutoff_bytes?: number | null;
            write_mode: components["schemas"]["WriteMode"];
            writes_held?: null | components["schemas"]["WritesHeld"];
        };
        /** @description A volume, and whether the request changed it. */
        VolumeChange: {
            changed: boolean;
            volume: components["schemas"]["Volume"];
        };
        /** @description A volume whose backing device was checked and opened again. */
        VolumeClear: {
            /** @description False if nothing was wrong with it. */
            changed: boolean;
            /** @description What hosts wrote past the cache since the last flush that succeeded may be lost; the next flush of each of them is an error. */
            doubtful: boolean;
            volume: components["schemas"]["Volume"];
        };
        /** @description A volume's counters. */
        VolumeCounters: {
            /** Format: int64 */
            cache_used_bytes: number;
            /** Format: int64 */
            dirty_bytes: number;
            name: string;
            pool?: string | null;
            /**
             * Format: int64
             * @description Bytes of pages that the SSDs of its pool hold when they are full of clean data; 0 without a pool.
             */
            pool_capacity_bytes: number;
            recent_latency: components["schemas"]["RecentLatency"];
            /** Format: int64 */
            size_bytes: number;
            stats: components["schemas"]["VolumeStats"];
            /** Format: int64 */
            write_cache_used_bytes: number;
        };
        /** @description `POST /api/v1/volumes` */
        VolumeCreate: {
            /** @description The absolute path of a block device or file, or `emulated:disks=16,level=raid5,size=8G,file=PATH`. */
            backing: string;
            /**
             * Format: int32
             * @description The block that hosts see: 512 or 4096. Left out: the backing device's, or 512 where its size is no multiple of that.
             */
            logical_block_bytes?: number | null;
            name: string;
            /** @description The pool that caches it; none: it is served uncached. */
            pool?: string | null;
            /** @description Left out: true. */
            read_cache?: boolean | null;
            read_only?: boolean;
            write_mode?: null | components["schemas"]["WriteMode"];
        };
        /** @description `GET /api/v1/volumes` */
        VolumeList: {
            volumes: components["schemas"]["Volume"][];
        };
        /** @description What of one volume is unavailable. */
        VolumeLoss: {
            /** @description In rising order; at most the first thousand. */
            extents: components["schemas"]["LostExtent"][];
            /**
             * Format: int64
             * @description As far as it is known.
             */
            lost_bytes: number;
            name: string;
            /** @description What was lost is not known: it may be any of `extents`. The volume is fenced until that is accepted. */
            possible: boolean;
        };
        /** @description `PUT /api/v1/volumes/{name}/name`: hosts that are connected go on; from their next connection on they ask for the new name. */
        VolumeRename: {
            name: string;
        };
        /**
         * @description `PATCH /api/v1/volumes/{name}`: the settings to change. A cut-off of 0 means off: no stream bypasses the cache. A
         *     share of 0 bytes means none: no cap, no minimum, no maximum.
         */
        VolumeSet: {
            cache_max?: null | components["schemas"]["Share"];
            cache_min?: null | components["schemas"]["Share"];
            dirty_cap?: null | components["schemas"]["Share"];
            /** @description With `local` false: although programs use the device, and get errors. */
            force?: boolean;
            /** @description Whether the volume is a block device of the daemon's own machine. */
            local?: boolean | null;
            /** @description Whether pages that are read again are kept in memory. */
            memory_cache?: boolean | null;
            /** @description Whether streams that bypass the cache are read into memory before hosts ask for them. */
            read_ahead?: boolean | null;
            /** @description Whether reads populate the cache and are answered from it. */
            read_cache?: boolean | null;
            /** Format: int64 */
            read_cutoff_bytes?: number | null;
            /** Format: int64 */
            write_cutoff_bytes?: number | null;
            write_mode?: null | components["schemas"]["WriteMode"];
        };
        /**
         * @description What a volume is doing.
         * @enum {string}
         */
        VolumeState: "online" | "flushing" | "offline";
        /** @description Counters since the volume was opened. Requests count once, whatever their length. */
        VolumeStats: {
            /**
             * Format: int64
             * @description Reads that a detected stream took past the cache.
             */
            bypassed_reads: number;
            /** Format: int64 */
            bypassed_writes: number;
            /**
             * Format: int64
             * @description How often the whole cache of this volume was dropped.
             */
            cache_drops: number;
            /**
             * Format: int64
             * @description Bytes of dirty data written to the backing device.
             */
            cleaned_bytes: number;
            /**
             * Format: int64
             * @description Requests answered with an error, but for those that were `invalid`.
             */
            errors: number;
            /** Format: int64 */
            evicted_blocks: number;
            /** Format: int64 */
            flushes: number;
            /**
             * Format: double
             * @description Hits per read, 0 to 1; 0 without reads.
             */
            hit_ratio: number;
            /**
             * Format: int64
             * @description Requests that hosts should not have made: outside the volume, not in its blocks, writes where it is read-only.
             */
            invalid: number;
            /**
             * Format: int64
             * @description Of them, reads answered from memory, without touching an SSD.
             */
            memory_hits: number;
            /**
             * Format: int64
             * @description Reads that missed because the block had not been read as often as the threshold says.
             */
            missed_below_threshold: number;
            /**
             * Format: int64
             * @description Reads that missed because of what is wrong: an SSD that failed or has gone, a pool that populates nothing, a request that failed.
             */
            missed_degraded: number;
            /**
             * Format: int64
             * @description Reads that missed a block that was in the cache and made room for others.
             */
            missed_evicted: number;
            /**
             * Format: int64
             * @description Reads that missed a block that waits for its turn at the backing device, or is being read from there.
             */
            missed_fetch_rate: number;
            /**
             * Format: int64
             * @description Reads that missed because nobody had asked for the block of late.
             */
            missed_first_touch: number;
            /**
             * Format: int64
             * @description Reads that missed a block that is to be populated and finds no free slot.
             */
            missed_no_room: number;
            /**
             * Format: int64
             * @description Reads that missed because the volume has no cache, or reads do not use it.
             */
            missed_off: number;
            /**
             * Format: int64
             * @description Reads that missed pages of a cached block to which hosts have written since.
             */
            missed_overwritten: number;
            /**
             * Format: int64
             * @description Reads that missed a block that is to be populated, of a volume that has all of its share.
             */
            missed_share: number;
            /**
             * Format: int64
             * @description Reads that missed and belong to a stream past the cut-off.
             */
            missed_stream: number;
            /**
             * Format: int64
             * @description Reads that missed a block that is to be populated after the SSDs have taken what they may in a day.
             */
            missed_wear_limit: number;
            /**
             * Format: int64
             * @description Bytes copied within the write log, to make room in it.
             */
            moved_bytes: number;
            /**
             * Format: int64
             * @description Bytes read from the backing device and stored in the cache.
             */
            populated_bytes: number;
            /**
             * Format: int64
             * @description Reads of streams that were answered by what was read ahead of them; they are no hits.
             */
            read_ahead_hits: number;
            /** Format: int64 */
            read_bytes: number;
            /**
             * Format: int64
             * @description Errors of SSDs that the backing device made good.
             */
            read_errors_hidden: number;
            /**
             * Format: int64
             * @description Reads answered by the cache alone, in memory or on SSDs.
             */
            read_hits: number;
            /** Format: int64 */
            reads: number;
            /**
             * Format: int64
             * @description Bytes of clean pages that went from the write log back to the slots of their blocks.
             */
            reinserted_bytes: number;
            /**
             * Format: int64
             * @description Of them, those that made no progress for too long.
             */
            timed_out: number;
            /** Format: int64 */
            trims: number;
            /** Format: int64 */
            write_bytes: number;
            /**
             * Format: int64
             * @description Writes acknowledged from the SSDs alone.
             */
            write_hits: number;
            /** Format: int64 */
            writes: number;
            /** Format: int64 */
            zeroes: number;
        };
        /** @description Something that takes long. */
        Work: {
            /** Format: int64 */
            done_bytes: number;
            /** Format: int64 */
            total_bytes: number;
            what: string;
        };
        /** @description The write log of a read-write pool. */
        WriteLog: {
            /**
             * Format: int64
             * @description Data at risk: bytes acknowledged to hosts and not yet on the backing devices.
             */
            dirty_bytes: number;
            /**
             * Format: int64
             * @description Bytes that hosts may have dirty at once.
             */
            dirty_capacity_bytes: number;
            /**
             * Format: int64
             * @description Bytes of newest pages that lie in the log, dirty or clean, each counted once.
             */
            live_bytes: number;
            /**
             * Format: int64
             * @description Bytes of the SSDs that the log takes, both copies.
             */
            log_bytes: number;
            /**
             * Format: int64
             * @description What the last start read of the log.
             */
            recovered_bytes: number;
            /** Format: int64 */
            recovery_ms: number;
            /** Format: int64 */
            rows: number;
            /** @description New writes go past the cache, because two copies cannot be kept. */
            write_caching_off: boolean;
        };
        /**
         * @description Where a volume's writes go. In a read pool, and without a pool, every mode is `write-around`.
         * @enum {string}
         */
        WriteMode: "write-back" | "instant-write-back" | "write-through" | "write-around";
        /** @description Since when writes of a volume are held: nothing new stays dirty, also over a restart, until that is released. */
        WritesHeld: {
            /** @description Who asked for it. */
            by: string;
            /** Format: int64 */
            since_unix_ms: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    advise_all: {
        parameters: {
            query?: {
                /** @description By default a week. */
                window?: components["schemas"]["AdviceWindow"];
                /** @description What all SSDs together may be written, for the years that they last if this volume alone writes to them. */
                endurance_bytes?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdviceList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    disks: {
        parameters: {
            query?: {
                /** @description List the image files of this directory instead of block devices. For the role admin only. */
                directory?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiskList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    list_events: {
        parameters: {
            query?: {
                /** @description Only events after the one with this id. */
                after?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    stream_events: {
        parameters: {
            query?: {
                /** @description Only events after the one with this id. */
                after?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    history: {
        parameters: {
            query: {
                /** @description `pool:NAME`, `ssd:UUID` or `volume:NAME`; `daemon`: all volumes and SSDs together. */
                subject: string;
                /** @description Seconds since 1970; by default four hours before `to`. */
                from?: number;
                /** @description Seconds since 1970; by default now. */
                to?: number;
                /** @description At most this many: 1 to 2000, by default 480. */
                points?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["History"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    memory_cache: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryCache"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    set_memory_cache: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemoryCacheSet"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryCacheChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    test_notices: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NoticeTest"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    list_operations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    start_operation: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OperationStart"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    show_operation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    cancel_operation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationCancelled"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    list_pools: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    create_pool: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolCreate"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    import_pool: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolImport"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    plan_pool: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolCreate"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolPlan"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    show_pool: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    delete_pool: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Removal"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    set_pool: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolSet"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolSettingsChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    convert_pool: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolConvert"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    plan_conversion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolConvert"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolPlan"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    pool_flush: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Flush"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    cancel_pool_flush: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlushCancelled"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    release_pool: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HoldReleased"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    losses: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LossList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    accept_loss: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LossAccepted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    open_pool: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    cancel_removal: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    plan_pool_settings: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolSet"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangePlan"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    add_spares: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SsdsAdd"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    remove_spares: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SsdsRemove"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    plan_spares: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SsdsAdd"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangePlan"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    add_ssds: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SsdsAdd"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    remove_ssds: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SsdsRemove"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    plan_ssds: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SsdsAdd"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangePlan"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    plan_pool_volumes: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolVolumes"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangePlan"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    session: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    stats: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stats"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Status"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    list_tokens: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    create_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TokenCreate"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenCreated"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    delete_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    list_volumes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    create_volume: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VolumeCreate"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    show_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    delete_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Removal"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    set_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VolumeSet"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    advise: {
        parameters: {
            query?: {
                /** @description By default a week. */
                window?: components["schemas"]["AdviceWindow"];
                /** @description What all SSDs together may be written, for the years that they last if this volume alone writes to them. */
                endurance_bytes?: number;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Advice"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    backing_evidence: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackingEvidence"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    accept_backing: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BackingAccept"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    enable_cache: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CacheEnable"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    disable_cache: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Removal"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    clear_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeClear"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    connect: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Connect"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    explain: {
        parameters: {
            query: {
                /** @description A byte of the volume: its page is meant. */
                offset: number;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Explanation"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    volume_flush: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Flush"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    cancel_volume_flush: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlushCancelled"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    grow_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    release_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HoldReleased"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    rename_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VolumeRename"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    plan_volume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VolumeCreate"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangePlan"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    begin_recording: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recording"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    take_recorded: {
        parameters: {
            query: {
                /** @description What the answer of PUT says. */
                id: number;
                /** @description One more each time. Asked for again, because its answer was lost, a portion is answered again. */
                portion: number;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recorded"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    end_recording: {
        parameters: {
            query: {
                /** @description What the answer of PUT says. */
                id: number;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recording"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    plan_volume_settings: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VolumeSet"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangePlan"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
    whatif: {
        parameters: {
            query: {
                /** @description Sizes of the cache in bytes, with commas between them. */
                sizes: string;
                /** @description By default a week. */
                window?: components["schemas"]["AdviceWindow"];
                /** @description What is not said is as the volume's pool has it, or as an uncached volume is watched. */
                type?: components["schemas"]["PoolKind"];
                block_bytes?: number;
                policy?: components["schemas"]["PolicyKind"];
                populate_on_read?: number;
                populate_on_write?: number;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LiveWhatIf"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiError"];
                };
            };
        };
    };
}
