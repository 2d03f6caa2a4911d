// The words of the API's types that the console uses.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Connect = Schemas["Connect"];
export type Disk = Schemas["Disk"];
export type Event = Schemas["Event"];
export type FetchRate = Schemas["FetchRate"];
export type Health = Schemas["Health"];
export type History = Schemas["History"];
export type HistoryPoint = Schemas["HistoryPoint"];
export type IoType = Schemas["IoType"];
export type LatencyPercentiles = Schemas["LatencyPercentiles"];
export type Operation = Schemas["Operation"];
export type OperationStart = Schemas["OperationStart"];
export type PolicyKind = Schemas["PolicyKind"];
export type Pool = Schemas["Pool"];
export type PoolCreate = Schemas["PoolCreate"];
export type PoolKind = Schemas["PoolKind"];
export type PoolPlan = Schemas["PoolPlan"];
export type Scrub = Schemas["Scrub"];
export type Session = Schemas["Session"];
export type Severity = Schemas["Severity"];
export type Ssd = Schemas["Ssd"];
export type Stats = Schemas["Stats"];
export type Status = Schemas["Status"];
export type Volume = Schemas["Volume"];
export type VolumeCounters = Schemas["VolumeCounters"];
export type WriteMode = Schemas["WriteMode"];
